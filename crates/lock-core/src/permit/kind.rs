//! The kinds of permits.

/// A permit of a [`Semaphore`](crate::permit::Semaphore).
#[derive(Debug, Clone, Copy)]
pub enum Plain {}

/// A permit of a reader.
#[derive(Debug, Clone, Copy)]
pub enum Read {}

/// The permit of a writer, which excludes all others.
#[derive(Debug, Clone, Copy)]
pub enum Write {}

/// The permit of a [`FairLock`](crate::permit::FairLock), which excludes all others.
#[derive(Debug, Clone, Copy)]
pub enum Fair {}

/// A kind whose permit excludes all others, so that its token fences.
pub trait Exclusive: sealed::Sealed {}

impl Exclusive for Write {}
impl Exclusive for Fair {}

impl sealed::Sealed for Write {}
impl sealed::Sealed for Fair {}

mod sealed {
    pub trait Sealed {}
}
