//! The error of options that contradict each other or exceed a bound.

use crate::token::FencingToken;
use std::{fmt, time::Duration};

/// Options that contradict each other or exceed a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// A duration is too short.
    TooShort {
        /// The name of the option.
        option: &'static str,
        /// The minimum.
        least: Duration,
    },
    /// A limit is zero.
    Zero {
        /// The name of the limit.
        option: &'static str,
    },
    /// A quorum of this size cannot tolerate the loss of a node.
    TooFewNodes {
        /// The number of nodes.
        nodes: usize,
        /// The minimum.
        least: usize,
    },
    /// The lease is below [`LockOptions::MIN_LEASE`](crate::LockOptions::MIN_LEASE).
    LeaseTooShort {
        /// The lease.
        lease: Duration,
        /// The minimum.
        least: Duration,
    },
    /// The lease exceeds the limit of the factory, the backend or this library.
    LeaseTooLong {
        /// The lease.
        lease: Duration,
        /// The maximum.
        most: Duration,
    },
    /// The operation timeout is longer than a tenth of the lease.
    OperationTimeoutTooLong {
        /// The timeout.
        operation_timeout: Duration,
        /// The maximum.
        most: Duration,
    },
    /// The lease minus the margin is not longer than the renewal interval plus two operation timeouts, or, for a fixed
    /// lease, than one operation timeout.
    NoTimeToRenew {
        /// The lease minus the margin.
        valid: Duration,
        /// The time that `valid` must exceed.
        needed: Duration,
    },
    /// A hold may end before the reply that grants it arrives.
    MaxHoldTooShort {
        /// The longest hold.
        max_hold: Duration,
        /// The operation timeout, which it must exceed.
        operation_timeout: Duration,
    },
    /// The minimum hold exceeds the lease, so the lock would be free too early if the process died.
    MinHoldTooLong {
        /// The minimum hold.
        min_hold: Duration,
        /// The lease.
        lease: Duration,
    },
    /// The factory's prefix is empty or too long, contains invalid characters, or would make names reserved.
    InvalidPrefix {
        /// The prefix.
        prefix: String,
    },
    /// The token floor leaves too few tokens above it.
    FloorTooHigh {
        /// The floor.
        floor: FencingToken,
        /// The exclusive upper bound of a floor.
        most: FencingToken,
    },
    /// The retention of the fencing counter is too short or too long.
    RetentionOutOfRange {
        /// The requested time.
        retention: Duration,
        /// The shortest time.
        least: Duration,
        /// The longest time.
        most: Duration,
    },
    /// The token of the hold to re-enter does not exceed the token floor.
    FloorAboveHold {
        /// The token of the hold.
        token: FencingToken,
    },
    /// An election needs a lease that is renewed.
    FixedLease,
    /// The initial delay of a back-off exceeds its maximum delay.
    DelaysReversed {
        /// The initial delay.
        initial_delay: Duration,
        /// The maximum.
        max_delay: Duration,
    },
    /// The wait exceeds the factory's limit.
    WaitTooLong {
        /// The wait.
        wait: Duration,
        /// The maximum.
        most: Duration,
    },
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { option, least } => write!(f, "`{option}` is too short: use at least {least:?}"),
            Self::TooFewNodes { nodes, least } => {
                write!(f, "a quorum of {nodes} nodes cannot tolerate the loss of one: use at least {least}")
            }
            Self::Zero { option } => write!(f, "`{option}` is zero: set it to a positive value"),
            Self::LeaseTooShort { lease, least } => {
                write!(f, "a lease of {lease:?} is too short: use at least {least:?}")
            }
            Self::LeaseTooLong { lease, most } => {
                write!(
                    f,
                    "a lease of {lease:?} exceeds the limit set by `max_lease`, the store or the library: use at most \
                     {most:?}"
                )
            }
            Self::OperationTimeoutTooLong { operation_timeout, most } => write!(
                f,
                "an operation timeout of {operation_timeout:?} exceeds a tenth of the lease: use at most {most:?}, \
                 or a longer lease"
            ),
            Self::NoTimeToRenew { valid, needed } => write!(
                f,
                "the lease minus its margin ({valid:?}) must exceed {needed:?}, which is the renewal interval plus two \
                 operation timeouts, or one timeout for a fixed lease: renew more often, shorten the margin or \
                 the timeout, or use a longer lease"
            ),
            Self::MaxHoldTooShort { max_hold, operation_timeout } => write!(
                f,
                "a `max_hold` of {max_hold:?} may elapse before the grant arrives: use more than the operation timeout \
                 ({operation_timeout:?}), or a shorter `operation_timeout`"
            ),
            Self::MinHoldTooLong { min_hold, lease } => write!(
                f,
                "a `min_hold` of {min_hold:?} would end early if the process died: use at most the lease ({lease:?}), or a \
                 longer lease"
            ),
            Self::InvalidPrefix { prefix } => write!(
                f,
                "`{}` is not a valid prefix: use 1 to 64 ASCII letters, digits, `-`, `_` or `.`, except `distlock` and \
                 words that start with `redisson_`",
                prefix.escape_debug()
            ),
            Self::FloorTooHigh { floor, most } => {
                write!(f, "a token floor of {floor} leaves too few tokens above it: use a floor below {most}")
            }
            Self::RetentionOutOfRange { retention, least, most } => write!(
                f,
                "a retention of {retention:?} is out of range: use {least:?} to {most:?}, or `Retention::Forever`"
            ),
            Self::FloorAboveHold { token } => write!(
                f,
                "a re-entry keeps the hold's token, {token}, which does not exceed the `token_floor`: lower the floor, or \
                 release the lock first"
            ),
            Self::FixedLease => {
                write!(
                    f,
                    "a fixed lease would cut every leadership term short: use `lease`, which is renewed"
                )
            }
            Self::DelaysReversed { initial_delay, max_delay } => write!(
                f,
                "an initial delay of {initial_delay:?} exceeds the maximum delay of {max_delay:?}: lower the initial delay \
                 or raise the maximum"
            ),
            Self::WaitTooLong { wait, most } => {
                write!(f, "a wait of {wait:?} exceeds the limit: use at most {most:?}, or raise `max_wait`")
            }
        }
    }
}

impl std::error::Error for OptionsError {}
