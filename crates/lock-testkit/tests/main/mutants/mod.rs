//! The suite is trusted because it catches: backends with planted bugs, each of which a named property must find.

mod ledger;
mod mutant;

pub(crate) use mutant::{Bug, Mutant};

use lock_core::{MemoryBackend, Store, TestClock};
use lock_testkit::conformance::{self, Harness};
use std::{future::Future, sync::Arc};

struct Mutated(Bug);

impl Harness for Mutated {
    async fn store(&self) -> Store {
        Mutant::new(self.0, MemoryBackend::with_clock(Arc::new(TestClock::new()))).into()
    }
}

/// Runs a property in a task of its own and says whether it panicked.
async fn finds(property: impl Future<Output = ()> + Send + 'static) -> bool {
    tokio::spawn(property).await.is_err_and(|error| error.is_panic())
}

macro_rules! caught {
    ($($test:ident: $bug:ident by $($module:ident::$property:ident),+;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $test() {
            $({
                let found = finds(async { conformance::$module::$property(&Mutated(Bug::$bug)).await }).await;
                assert!(found, "{} finds {:?}", stringify!($property), Bug::$bug);
                conformance::$module::$property(&Mutated(Bug::None)).await;
            })+
        }
    )*};
}

use caught;

caught! {
    delete_without_compare: DeleteWithoutCompare
        by freeing::a_release_never_touches_anothers_lease, freeing::a_repeated_release_leaves_the_next_holder_alone;
    renewal_without_compare: RenewWithoutCompare by lasting::a_renewal_does_not_touch_anothers_lease;
    renewal_that_re_creates: RenewCreates
        by lasting::a_renewal_never_creates, lasting::an_ended_lease_cannot_be_renewed;
    incrementing_acquire_sent_again: IncrementingAcquire by taking::a_repeated_acquire_is_freed_by_one_release;
    repeat_that_resets_the_depth: RepeatResetsDepth by taking::a_repeated_acquire_keeps_the_depth;
    late_re_entry_that_creates: ReentryCreates
        by taking::a_re_entry_of_a_gone_lease_creates_nothing, lasting::an_ended_lease_cannot_be_re_entered;
    late_acquire_that_is_carried_out: IgnoresNotAfter
        by late::a_late_acquire_creates_nothing, late::a_late_acquire_draws_no_token;
    expiry_that_falls: ShortensExpiry
        by lasting::a_shorter_renewal_does_not_lower_the_expiry, lasting::a_shorter_re_entry_does_not_lower_the_expiry;
    lease_that_never_ends: NeverEnds
        by lasting::an_ended_lease_is_free_for_the_next, lasting::a_lease_lasts_as_long_as_asked_and_no_longer;
    lease_that_ends_early: EndsEarly by lasting::a_lease_lasts_as_long_as_asked_and_no_longer;
    check_then_set: CheckThenSet by racing::of_many_acquires_at_once_one_is_granted;
    token_that_stands_still: ConstantToken by tokens::tokens_grow_from_holder_to_holder;
    range_that_is_not_reserved: UnreservedRange by tokens::a_range_is_no_longer_than_asked_and_is_never_given_again;
    floor_that_is_ignored: IgnoresFloor by tokens::tokens_exceed_the_floor;
    watch_that_is_not_acknowledged: WatchLater by waking::a_release_wakes_who_watches;
    unwatch_that_does_nothing: NeverUnwatches by waking::no_wake_up_after_unwatching;
    release_to_a_depth_that_publishes: PublishesKept by waking::a_release_to_a_depth_wakes_nobody;
    release_that_wakes_nobody: NeverPublishes
        by waiting::a_waiter_is_woken_by_a_release_elsewhere, waiting::a_try_does_not_overtake_a_waiter;
    undo_that_publishes: AlwaysPublishes by waking::a_release_without_publishing_wakes_nobody;
    force_without_compare: ForceWithoutCompare
        by freeing::a_repeated_forced_release_leaves_the_next_holder_alone;
    other_holder_that_is_not_told: HidesOther by freeing::a_release_never_touches_anothers_lease;
    renewals_answered_out_of_order: ShufflesRenewals by lasting::many_renewals_answer_in_order_and_each_for_itself;
    one_duration_for_all_renewals: OneDuration by lasting::each_renewal_has_its_own_duration;
    server_time_that_falls: TimeFalls by reporting::every_answer_carries_a_server_time_that_does_not_fall;
    names_without_case: CaseBlind by naming::names_that_look_alike_are_different_locks;
    names_that_are_cut: CutsNames by naming::names_with_one_hash_tag_are_different_locks;
}
