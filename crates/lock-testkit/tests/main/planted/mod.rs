//! Tests that the suite catches bugs. Each planted bug is found by the property named here.

mod backend;
mod ledger;

pub(crate) use backend::BuggyBackend;

use lock_core::{Store, clock::TestClock};
use lock_testkit::{
    conformance::{self, Harness},
    planted::{
        Checker,
        PlantedBug::{self, *},
    },
};
use std::{future::Future, sync::Arc};

struct Buggy(Option<PlantedBug>);

impl Harness for Buggy {
    async fn store(&self) -> Store {
        BuggyBackend::new(self.0, Arc::new(TestClock::new())).into()
    }
}

/// Runs a property in a separate task and returns whether it panicked.
async fn finds(property: impl Future<Output = ()> + Send + 'static) -> bool {
    tokio::spawn(property).await.is_err_and(|error| error.is_panic())
}

/// Generates one test per bug. The properties fail with the bug and pass without it. `CAUGHT` lists
/// the bugs.
macro_rules! caught {
    ($($test:ident: $bug:ident by $($module:ident::$property:ident),+;)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $test() {
                $({
                    let found = finds(async { conformance::$module::$property(&Buggy(Some($bug))).await }).await;
                    assert!(found, "{} does not find {:?}", stringify!($property), $bug);
                    conformance::$module::$property(&Buggy(None)).await;
                })+
            }
        )*

        const CAUGHT: &[PlantedBug] = &[$($bug),*];
    };
}

use caught;

#[track_caller]
fn are_all_of(checker: Checker, caught: &[PlantedBug]) {
    let listed: Vec<_> = PlantedBug::caught_by_checker(checker).collect();
    assert!(listed.iter().all(|bug| caught.contains(bug)), "listed {listed:?}, caught {caught:?}");
    assert_eq!(listed.len(), caught.len());
}

#[test]
fn every_bug_has_a_test() {
    are_all_of(Checker::Conformance, CAUGHT);
}

caught! {
    delete_without_compare: DeleteWithoutCompare
        by release::a_release_never_touches_anothers_lease, release::a_repeated_release_leaves_the_next_holder_alone;
    renewal_without_compare: RenewWithoutCompare by expiry::a_renewal_does_not_touch_anothers_lease;
    renewal_that_creates: RenewalCreates
        by expiry::a_renewal_never_creates, expiry::an_ended_lease_cannot_be_renewed;
    counted_depth: CountsDepth by acquire::a_repeated_acquire_is_freed_by_one_release;
    repeat_that_resets_the_depth: RepeatResetsDepth by acquire::a_repeated_acquire_keeps_the_depth;
    reentry_that_creates: ReentryCreates
        by acquire::a_re_entry_of_a_gone_lease_creates_nothing, expiry::an_ended_lease_cannot_be_re_entered;
    late_acquire: IgnoresNotAfter by not_after::a_late_acquire_creates_nothing, not_after::a_late_acquire_draws_no_token,
        not_after::a_late_renewal_or_re_entry_lengthens_nothing, permits::late_request_changes_nothing;
    shortened_expiry: ShortensExpiry
        by expiry::a_shorter_renewal_does_not_lower_the_expiry, expiry::a_shorter_re_entry_does_not_lower_the_expiry;
    reentry_not_extended: ReentryNotExtended by acquire::a_re_entry_raises_the_expiry;
    lease_that_never_ends: LeaseNeverEnds
        by expiry::an_ended_lease_is_free_for_the_next, expiry::a_lease_lasts_as_long_as_asked_and_no_longer;
    lease_that_ends_early: LeaseEndsEarly by expiry::a_lease_lasts_as_long_as_asked_and_no_longer;
    check_then_set: CheckThenSet by concurrency::of_many_acquires_at_once_one_is_granted;
    constant_token: ConstantToken by tokens::tokens_grow_from_holder_to_holder;
    unreserved_range: UnreservedRange by tokens::a_range_is_no_longer_than_asked_and_is_never_given_again;
    ignored_floor: IgnoresFloor by tokens::tokens_exceed_the_floor;
    late_subscription: SubscribesLate by wake_ups::release_wakes_subscribers;
    endless_subscription: NeverUnsubscribes by wake_ups::no_wake_up_after_unwatching;
    partial_release_that_notifies: NotifiesPartialRelease by wake_ups::a_release_to_a_depth_wakes_nobody;
    release_that_notifies_nobody: NeverNotifies
        by waiting::a_waiter_is_woken_by_a_release_elsewhere, waiting::a_try_does_not_overtake_a_waiter;
    undo_that_notifies: AlwaysNotifies by wake_ups::a_release_without_publishing_wakes_nobody;
    force_without_compare: ForceWithoutCompare
        by release::a_repeated_forced_release_leaves_the_next_holder_alone;
    hidden_holder: HidesOtherHolder by release::a_release_never_touches_anothers_lease;
    shuffled_renewals: ShufflesRenewals by expiry::many_renewals_answer_in_order_and_each_for_itself;
    one_duration_for_all: OneDurationForAll by expiry::each_renewal_has_its_own_duration;
    falling_server_time: ServerTimeFalls by reporting::every_answer_carries_a_server_time_that_does_not_fall;
    names_without_case: IgnoresCase by naming::names_that_look_alike_are_different_locks;
    overtaking_newcomer: Overtakes
        by permits::newcomers_do_not_overtake, permits::waiting_writer_stops_later_readers;
    dead_waiter_that_is_kept: KeepsDeadWaiters by permits::ended_waiter_is_forgotten;
    place_that_is_kept: KeepsPlaces by permits::release_gives_up_a_place, permits::no_permit_is_ever_lost;
    grant_without_request: GrantsUnasked by permits::place_is_granted_once;
    cut_names: CutsNames by naming::names_with_one_hash_tag_are_different_locks;
}
