//! The list of all properties. A test checks that it is complete.

/// Calls `$crate::$then!` with the given arguments and the list.
#[doc(hidden)]
#[macro_export]
macro_rules! each_property {
    ($then:ident, $($arguments:tt)*) => {
        $crate::$then! { [$($arguments)*]
            acquire::a_free_lock_is_granted,
            acquire::a_taken_lock_is_busy_and_says_for_how_long,
            acquire::a_busy_answer_writes_nothing,
            acquire::two_leases_of_one_process_exclude_one_another,
            acquire::one_lease_id_on_two_names_is_two_leases,
            acquire::a_repeated_acquire_is_freed_by_one_release,
            acquire::a_repeated_acquire_keeps_the_depth,
            acquire::a_repeated_acquire_raises_the_expiry,
            acquire::a_re_entry_sets_the_absolute_depth,
            acquire::a_re_entry_raises_the_expiry,
            acquire::a_re_entry_of_a_gone_lease_creates_nothing,
            acquire::a_re_entry_does_not_touch_anothers_lease,
            not_after::a_late_acquire_creates_nothing,
            not_after::a_late_acquire_draws_no_token,
            not_after::a_late_acquire_of_a_taken_lock_is_late,
            not_after::a_late_renewal_or_re_entry_lengthens_nothing,
            not_after::a_late_lease_id_may_ask_again_in_time,
            not_after::dropped_calls_disturb_nobody,
            expiry::a_lease_lasts_as_long_as_asked_and_no_longer,
            expiry::an_ended_lease_is_free_for_the_next,
            expiry::an_ended_lease_cannot_be_renewed,
            expiry::an_ended_lease_cannot_be_re_entered,
            expiry::a_renewed_lease_outlives_its_first_end,
            expiry::a_renewal_keeps_the_depth,
            expiry::a_renewal_never_creates,
            expiry::a_renewal_does_not_touch_anothers_lease,
            expiry::a_shorter_renewal_does_not_lower_the_expiry,
            expiry::a_shorter_re_entry_does_not_lower_the_expiry,
            expiry::a_shorter_repeat_does_not_lower_the_expiry,
            expiry::many_renewals_answer_in_order_and_each_for_itself,
            expiry::each_renewal_has_its_own_duration,
            expiry::renewing_nothing_answers_nothing,
            expiry::a_lease_of_months_is_kept_whole,
            release::a_released_lock_is_free_for_the_next,
            release::a_repeated_release_says_gone,
            release::a_repeated_release_leaves_the_next_holder_alone,
            release::releasing_what_was_never_taken_says_gone,
            release::a_release_never_touches_anothers_lease,
            release::a_release_after_the_end_leaves_the_next_holder_alone,
            release::a_release_to_a_depth_keeps_the_lease,
            release::a_forced_release_frees_the_holder_that_was_seen,
            release::a_repeated_forced_release_leaves_the_next_holder_alone,
            release::a_forced_release_of_nobody_changes_nothing,
            tokens::tokens_grow_from_holder_to_holder,
            tokens::tokens_grow_over_the_end_of_a_lease,
            tokens::tokens_grow_over_a_repeat,
            tokens::tokens_grow_over_busy_answers_and_re_entries,
            tokens::a_range_is_no_longer_than_asked_and_is_never_given_again,
            tokens::tokens_exceed_the_floor,
            tokens::a_low_floor_changes_nothing,
            tokens::tokens_fit_a_database,
            reporting::an_inspection_shows_the_hold,
            reporting::every_answer_carries_a_server_time_that_does_not_fall,
            reporting::the_server_time_goes_on,
            reporting::the_estimate_of_the_server_time_is_close,
            reporting::capabilities_are_constant_and_named,
            wake_ups::release_wakes_subscribers,
            wake_ups::every_release_wakes,
            wake_ups::no_wake_up_before_watching,
            wake_ups::no_wake_up_after_unwatching,
            wake_ups::unwatching_what_is_not_watched_is_harmless,
            wake_ups::a_release_to_a_depth_wakes_nobody,
            wake_ups::a_release_without_publishing_wakes_nobody,
            wake_ups::a_release_that_frees_nothing_wakes_nobody,
            wake_ups::a_release_that_wakes_even_if_gone_frees_and_wakes,
            wake_ups::a_forced_release_wakes,
            wake_ups::second_subscription_changes_nothing,
            wake_ups::a_wake_up_carries_the_right_name,
            wake_ups::two_subscribers_are_independent,
            wake_ups::a_subscriber_that_is_gone_is_no_harm,
            naming::names_of_every_shape_are_locked_and_freed,
            naming::names_of_every_shape_are_watched,
            naming::names_with_one_hash_tag_are_different_locks,
            naming::names_that_look_alike_are_different_locks,
            naming::a_name_is_never_a_pattern,
            concurrency::of_many_acquires_at_once_one_is_granted,
            concurrency::one_acquire_sent_many_times_at_once_is_one_hold,
            concurrency::of_many_releases_at_once_one_frees,
            concurrency::many_names_at_once_are_all_granted,
            locking::two_factories_exclude_one_another,
            locking::two_acquires_of_one_factory_exclude_one_another,
            locking::locks_of_different_names_are_independent,
            locking::a_wait_that_passes_times_out,
            locking::tokens_grow_over_factories,
            locking::an_owner_re_enters_what_it_holds,
            locking::a_guard_re_enters_its_hold,
            locking::owner_of_another_factory_is_refused,
            locking::many_contenders_are_never_two_holders,
            locking::an_inspection_shows_the_holder,
            holding::the_watchdog_keeps_a_lease_alive,
            holding::a_fixed_lease_ends,
            holding::a_hold_ends_for_its_holder_first,
            holding::a_dropped_guard_frees_the_lock,
            holding::a_minimum_hold_outlasts_the_release,
            holding::a_minimum_hold_outlasts_a_shutdown,
            holding::an_aborted_task_frees_the_lock,
            holding::a_forced_release_ends_the_hold,
            holding::forcing_a_free_lock_says_not_held,
            holding::a_shutdown_releases_what_is_held,
            waiting::a_waiter_is_woken_by_a_release_elsewhere,
            waiting::a_waiter_gets_the_lock_when_the_lease_ends,
            waiting::a_dropped_waiter_leaves_nothing,
            waiting::a_dropped_waiter_lets_others_pass,
            waiting::waiters_of_one_process_keep_their_order,
            waiting::a_try_does_not_overtake_a_waiter,
            waiting::a_busy_process_lets_others_have_a_turn,
            waiting::a_busy_process_pauses_for_others_that_poll,
            waiting::a_shutdown_ends_every_wait,
        }
    };
}

/// Calls `$crate::$then!` with the given arguments and the list of run ledger properties.
#[doc(hidden)]
#[macro_export]
macro_rules! each_ledger_property {
    ($then:ident, $($arguments:tt)*) => {
        $crate::$then! { [$($arguments)*]
            claim::a_job_begins_when_it_is_registered,
            claim::a_due_instant_is_claimed_once,
            claim::a_repeated_claim_is_granted_again_while_its_lease_lasts,
            claim::a_repeated_claim_renews_its_lease,
            claim::an_earlier_instant_is_superseded,
            claim::a_future_instant_is_early,
            claim::a_late_claim_starts_nothing,
            claim::a_changed_schedule_begins_when_it_is_registered,
            claim::reading_a_watermark_makes_none,
            claim::a_job_without_a_watermark_is_not_claimed,
            claim::tokens_of_claims_grow,
            claim::one_of_many_claims_starts,
            claim::jobs_and_groups_are_independent,
            claim::a_claim_after_an_undecided_instant_is_behind,
            skip::a_skip_moves_the_watermark,
            skip::a_partly_decided_series_is_refused,
            skip::a_repeated_row_counts_once,
            skip::adjacent_skips_are_one_entry,
            overlap::an_open_run_skips_the_next_for_good,
            overlap::a_repeated_skip_stays_a_skip,
            overlap::a_queued_run_waits_and_decides_nothing,
            overlap::a_replaced_run_is_asked_to_end,
            overlap::open_runs_are_bounded,
            overlap::an_orphan_does_not_overlap,
            pool::open_runs_of_a_pool_are_bounded,
            pool::a_pool_bounds_only_its_runs,
            pool::a_full_pool_decides_nothing,
            pool::a_skip_needs_no_place,
            pool::a_repeated_claim_keeps_its_place,
            pool::a_waiting_run_keeps_its_place,
            pool::an_orphan_takes_no_place,
            pool::a_released_run_leaves_its_place,
            pool::each_claim_is_judged_by_its_own_limit,
            pool::an_attempt_is_in_the_pool_of_its_claim,
            retry::a_failed_attempt_is_followed_by_another,
            retry::an_orphan_is_followed_by_another,
            retry::an_attempt_under_way_is_not_followed,
            retry::attempts_are_bounded,
            retry::failures_and_orphanings_have_separate_budgets,
            retry::a_reassigned_attempt_is_followed_at_once,
            retry::a_requeued_attempt_is_the_same_attempt,
            retry::a_postponed_run_is_followed_after_its_delay,
            retry::a_declined_run_is_started_by_others_or_fails,
            retry::a_waiting_run_is_open,
            retry::an_old_attempt_does_not_join_a_later_run,
            run::a_renewed_run_outlives_its_first_end,
            run::an_expired_run_is_not_revived,
            run::only_its_claim_renews_and_ends_a_run,
            run::a_repeated_end_is_recorded_once,
            run::the_last_hundred_attempts_are_remembered,
            run::texts_of_every_shape_are_kept,
            run::a_history_is_as_long_as_asked,
            control::a_paused_job_starts_and_makes_up_nothing,
            control::a_pause_keeps_its_note,
            control::changed_controls_outdate_a_claim,
            control::controls_are_sent_when_changed,
            control::reinstated_controls_win_by_their_revision,
            control::a_revision_is_at_least_the_time,
            control::a_trigger_is_claimed_once_and_decides_no_instant,
            control::a_repeated_trigger_starts_once,
            control::triggers_are_bounded,
            control::a_trigger_expires,
            control::a_trigger_can_be_cancelled,
            control::a_reset_ends_a_watermark_in_the_future,
            control::an_unknown_job_takes_no_commands,
            payload::a_claim_has_the_payload_of_its_trigger,
            payload::every_attempt_has_the_payload,
            payload::a_withdrawn_trigger_leaves_no_payload,
            payload::waiting_payloads_are_bounded,
            backfill::a_backfill_runs_in_order_and_decides_no_instant,
            backfill::runs_of_a_backfill_do_not_overlap,
            backfill::a_backfill_waits_for_other_runs,
            backfill::a_paused_job_runs_no_backfill,
            backfill::a_backfill_can_be_cancelled,
            backfill::a_backfill_stays_within_its_range,
            backfill::backfills_are_bounded,
            cancel::a_cancelled_run_is_asked_to_end,
            cancel::only_the_named_run_is_cancelled,
            cancel::nothing_open_is_nothing_to_cancel,
            cancel::a_cancelled_run_gets_no_further_attempt,
            cancel::a_waiting_attempt_is_withdrawn,
            heartbeat::a_heartbeat_lists_the_live_nodes,
            heartbeat::a_node_without_heartbeats_is_forgotten,
            heartbeat::a_heartbeat_reads_controls_and_watermarks,
            instance::an_added_instance_is_read_by_all,
            instance::a_repeated_add_changes_nothing,
            instance::a_changed_definition_outdates_a_claim,
            instance::a_changed_schedule_starts_now_and_a_payload_does_not,
            instance::an_added_instance_never_runs_for_the_past,
            instance::a_removed_instance_is_not_claimed,
            instance::a_removed_instance_ends_its_open_run,
            instance::a_forgotten_instance_leaves_nothing,
            instance::a_reader_learns_what_has_changed,
            instance::texts_of_every_shape_are_stored,
            instance::a_large_group_is_read_in_pages,
            instance::a_claim_returns_the_instance_payload,
            once::an_instant_in_the_past_runs_once,
            once::a_run_keeps_its_name_for_a_while,
            once::a_skipped_run_has_run,
            once::another_instant_replaces_the_first,
            once::a_pause_does_not_miss_the_instant,
            once::a_removed_one_leaves_nothing,
            once::a_name_with_a_past_takes_a_later_instant,
            summary::a_registered_job_is_described,
            summary::a_kind_is_described,
            summary::a_summary_has_the_latest_outcomes,
            summary::an_abandoned_attempt_is_in_the_summary,
            summary::a_summary_lists_the_live_nodes,
        }
    };
}

/// Generates one named test per property in the suite: `conformance!(harness)`, or, with arguments for
/// `#[tokio::test]`, `conformance!(harness, start_paused = true)`.
///
/// The harness expression is evaluated in every test. The calling crate needs tokio with the features
/// `macros` and `rt`. Put each suite in a separate module to avoid name collisions. See [the
/// `conformance` module](mod@crate::conformance) for an example.
#[macro_export]
macro_rules! conformance {
    ($harness:expr $(, $($argument:tt)*)?) => {
        $crate::each_property! { property_tests, ($harness) [$($($argument)*)?] }
    };
}

/// Generates one named test per property of a run ledger, like
/// [`conformance!`](crate::conformance!) does for a store.
#[macro_export]
macro_rules! ledger_conformance {
    ($harness:expr $(, $($argument:tt)*)?) => {
        $crate::each_ledger_property! { property_tests, ($harness) [$($($argument)*)?] }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! property_tests {
    ([$harness:tt $arguments:tt] $($module:ident::$property:ident,)*) => {
        $($crate::property_test! { $harness $arguments $module $property })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! property_test {
    (($harness:expr) [$($argument:tt)*] $module:ident $property:ident) => {
        #[::tokio::test($($argument)*)]
        async fn $property() {
            $crate::conformance::$module::$property(&$harness).await;
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! property_names {
    ([] $($module:ident::$property:ident,)*) => {
        &[$(concat!(stringify!($module), "::", stringify!($property)),)*]
    };
}

/// Calls `$crate::$then!` with the given arguments and the list of the properties of pools.
#[doc(hidden)]
#[macro_export]
macro_rules! each_permit_property {
    ($then:ident, $($arguments:tt)*) => {
        $crate::$then! { [$($arguments)*]
            permits::weights_are_bounded_by_the_limit,
            permits::of_many_at_once_as_many_as_fit_are_granted,
            permits::repeated_grant_is_one_permit,
            permits::newcomers_do_not_overtake,
            permits::heads_that_fit_are_granted_in_any_order,
            permits::each_request_has_its_own_limit,
            permits::waiting_writer_stops_later_readers,
            permits::ended_lease_is_free,
            permits::ended_waiter_is_forgotten,
            permits::repeated_request_keeps_the_place,
            permits::place_is_granted_once,
            permits::release_gives_up_a_place,
            permits::late_request_changes_nothing,
            permits::renewal_only_extends,
            permits::tokens_of_a_pool_grow,
            permits::release_of_a_permit_wakes_waiters,
            permits::grant_that_leaves_room_wakes_the_next,
            permits::found_end_wakes_the_others,
            permits::more_room_wakes_waiters,
            permits::inspection_shows_holders_and_waiters,
            permits::pool_and_lock_of_one_name_are_independent,
            permits::no_permit_is_ever_lost,
            permits::processes_share_a_semaphore,
        }
    };
}

/// Generates one named test per property of a store with permits, like [`conformance!`](crate::conformance!) does for its
/// locks.
#[macro_export]
macro_rules! permit_conformance {
    ($harness:expr $(, $($argument:tt)*)?) => {
        $crate::each_permit_property! { property_tests, ($harness) [$($($argument)*)?] }
    };
}

/// The names of all properties of pools as `module::name`, in declaration order.
pub const PERMIT_NAMES: &[&str] = each_permit_property!(property_names,);

/// The names of all store properties as `module::name`, in declaration order.
pub const NAMES: &[&str] = each_property!(property_names,);

/// The names of all run ledger properties as `module::name`, in declaration order.
pub const LEDGER_NAMES: &[&str] = each_ledger_property!(property_names,);

#[cfg(test)]
mod tests {
    use super::{LEDGER_NAMES, NAMES, PERMIT_NAMES};
    use std::{collections::BTreeSet, fs, path::Path};

    #[test]
    fn the_list_contains_every_property() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
        let mut written = BTreeSet::new();
        for entry in fs::read_dir(&sources).unwrap() {
            let path = entry.unwrap().path();
            let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
            for line in fs::read_to_string(&path).unwrap().lines() {
                if let Some(rest) = line.strip_prefix("pub async fn ") {
                    let name = rest.split(['(', '<']).next().unwrap();
                    written.insert(format!("{module}::{name}"));
                }
            }
        }
        let listed: BTreeSet<_> =
            NAMES.iter().chain(LEDGER_NAMES).chain(PERMIT_NAMES).map(|&name| name.to_owned()).collect();
        assert_eq!(written, listed);
        assert!(listed.len() > 50, "found too few properties in the sources");
    }

    #[test]
    fn every_name_is_unique() {
        for list in [NAMES, LEDGER_NAMES, PERMIT_NAMES] {
            let names: BTreeSet<_> = list.iter().map(|name| name.split("::").last()).collect();
            assert_eq!(names.len(), list.len());
        }
    }
}
