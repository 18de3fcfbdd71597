//! The locks that make a set, and those that do not.

use crate::support::{World, secs};
use lock_core::{
    LockError, LockErrorKind, LockFactory, LockName, MemoryBackend, NameError, set::LockSet, set::SetError,
};
use std::error::Error;

fn names(set: &LockSet) -> Vec<&str> {
    set.names().map(LockName::as_str).collect()
}

fn cause(error: &LockError) -> Option<&SetError> {
    assert_eq!(error.kind(), LockErrorKind::InvalidSet);
    assert!(!error.is_retryable());
    error.source()?.downcast_ref()
}

#[test]
fn names_are_sorted_and_merged() {
    let locks = LockFactory::new(MemoryBackend::new());
    assert_eq!(names(&locks.all(["b", "c", "a", "b"]).unwrap()), ["a", "b", "c"]);
    let of_names = [LockName::of(("stock", 7)).unwrap(), LockName::from_static("a")];
    assert_eq!(names(&locks.all(&of_names).unwrap()), ["a", "stock:7"]);
    let of_locks = [locks.named("y").unwrap(), locks.named("x").unwrap()];
    assert_eq!(names(&LockSet::of(of_locks).unwrap()), ["x", "y"]);
}

#[test]
fn empty_and_large_sets_are_refused() {
    let locks = LockFactory::new(MemoryBackend::new());
    let none: [&str; 0] = [];
    assert_eq!(cause(&locks.all(none).unwrap_err()), Some(&SetError::Empty));
    assert_eq!(cause(&LockSet::of([]).unwrap_err()), Some(&SetError::Empty));

    let many = |count: usize| (0..count).map(|number| format!("n{number:02}"));
    let most = LockSet::MAX_MEMBERS;
    let set = locks.all(many(most).chain(many(most))).unwrap();
    assert_eq!(set.names().len(), most, "duplicates are not counted");
    let error = locks.all(many(most + 1)).unwrap_err();
    let name = LockName::from_static("n64");
    assert_eq!(cause(&error), Some(&SetError::TooMany { name, most }));
    assert!(
        format!("{error:#}").contains("`n64` exceeds the maximum size of a set: use at most 64 names"),
        "{error:#}"
    );
}

#[test]
fn bad_names_are_refused_with_the_position() {
    let locks = LockFactory::new(MemoryBackend::new());
    let error = locks.all(["a", "b", "a\n"]).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidName);
    let cause = error.source().unwrap().downcast_ref();
    assert_eq!(cause, Some(&NameError::ControlCharacter { at: 1 }));
    assert!(error.to_string().contains("the name at index 2 of the set"), "{error}");
}

#[test]
fn unequal_members_are_refused_by_name() {
    let world = World::new();
    let lock = |name: &str| world.locks.named(name).unwrap();
    let name = LockName::from_static("b");

    let other_options = lock("b").with_fixed_lease(secs(5)).unwrap();
    let error = LockSet::of([lock("a"), other_options.clone()]).unwrap_err();
    assert_eq!(cause(&error), Some(&SetError::UnequalOptions { name: name.clone() }));
    let same_name = LockSet::of([lock("b"), other_options]).unwrap_err();
    assert_eq!(cause(&same_name), Some(&SetError::UnequalOptions { name: name.clone() }));

    let unequal = SetError::UnequalOwners { name };
    let owned = lock("b").with_owner(&world.locks.owner()).unwrap();
    assert_eq!(cause(&LockSet::of([lock("a"), owned]).unwrap_err()), Some(&unequal));
    let of_another = world.another_process().named("b").unwrap();
    assert_eq!(cause(&LockSet::of([lock("a"), of_another]).unwrap_err()), Some(&unequal));
}

#[test]
fn options_and_owners_are_checked() {
    let world = World::new();
    let set = world.locks.all(["a", "b"]).unwrap();
    let long = set.with_options(set.options().lease(secs(20))).unwrap();
    assert_ne!(long.options(), set.options());
    let bad = set.with_options(set.options().max_hold(secs(0))).unwrap_err();
    assert_eq!(bad.kind(), LockErrorKind::InvalidOptions);
    let foreign = set.with_owner(&world.another_process().owner()).unwrap_err();
    assert_eq!(foreign.kind(), LockErrorKind::ForeignOwner);
}
