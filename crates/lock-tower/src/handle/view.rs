//! The forms in which a handler can receive its lock.

use super::{
    lock_handle::LockHandle, lock_set_handle::LockSetHandle, missing::LockMissing, status::LockStatus,
};

/// A form in which a handler can receive its lock: [`LockHandle`], [`LockSetHandle`], an `Option` of one of them, or
/// [`LockStatus`].
pub trait LockView: sealed::Sealed + Send + Sized {
    #[doc(hidden)]
    fn of(status: Option<&LockStatus>) -> Result<Self, LockMissing>;
}

impl LockView for LockHandle {
    fn of(status: Option<&LockStatus>) -> Result<Self, LockMissing> {
        status.and_then(LockStatus::handle).cloned().ok_or_else(|| LockMissing::of(status))
    }
}

impl LockView for LockSetHandle {
    fn of(status: Option<&LockStatus>) -> Result<Self, LockMissing> {
        status.and_then(LockStatus::set_handle).cloned().ok_or_else(|| LockMissing::of(status))
    }
}

impl LockView for LockStatus {
    fn of(status: Option<&LockStatus>) -> Result<Self, LockMissing> {
        status.cloned().ok_or(LockMissing::NoLayer)
    }
}

/// `None` means that the request has no lock. A lock in another form is an error.
impl<H: LockView> LockView for Option<H>
where
    Self: sealed::Sealed,
{
    fn of(status: Option<&LockStatus>) -> Result<Self, LockMissing> {
        match H::of(status) {
            Ok(handle) => Ok(Some(handle)),
            Err(LockMissing::NoLayer | LockMissing::Unlocked) => Ok(None),
            Err(wrong) => Err(wrong),
        }
    }
}

mod sealed {
    use super::{LockHandle, LockSetHandle, LockStatus};

    pub trait Sealed {}

    impl Sealed for LockHandle {}
    impl Sealed for LockSetHandle {}
    impl Sealed for LockStatus {}
    impl Sealed for Option<LockHandle> {}
    impl Sealed for Option<LockSetHandle> {}
}
