//! A map for keys that nearly always increase, such as the ids of waiters in the order of their arrival.

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
};

/// The capacity that an emptied map keeps. A `BTreeMap` would keep a leaf of 11 entries for each held lock and
/// allocate it at the first insertion.
const KEPT_ROOM: usize = 16;

/// Entries sorted by key. The first one is stored in place, so a map of one entry allocates nothing.
///
/// Inserting after all others and removing the first entry take constant time. A search is binary; an insertion or
/// removal in the middle moves the entries of the shorter side.
#[derive(Debug, Clone)]
pub(crate) struct FifoMap<K, V> {
    first: Option<(K, V)>,
    /// The other entries; none while there is no first one.
    #[expect(
        clippy::box_collection,
        reason = "most maps have one entry at most, and are part of a held lock"
    )]
    rest: Option<Box<VecDeque<(K, V)>>>,
}

impl<K, V> Default for FifoMap<K, V> {
    fn default() -> Self {
        Self { first: None, rest: None }
    }
}

impl<K: Ord, V> FifoMap<K, V> {
    /// Inserts an entry in the order of its key. Returns the previous value of the key.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some(first) = &mut self.first else {
            self.first = Some((key, value));
            return None;
        };
        if key == first.0 {
            return Some(std::mem::replace(&mut first.1, value));
        }
        let rest = self.rest.get_or_insert_default();
        if key < first.0 {
            rest.push_front(std::mem::replace(first, (key, value)));
            return None;
        }
        if rest.back().is_none_or(|(last, _)| *last < key) {
            rest.push_back((key, value));
            return None;
        }
        match rest.binary_search_by(|(at, _)| at.cmp(&key)) {
            Ok(at) => Some(std::mem::replace(&mut rest[at].1, value)),
            Err(at) => {
                rest.insert(at, (key, value));
                None
            }
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        match &self.first {
            Some((first, value)) if first == key => Some(value),
            _ => {
                let rest = self.rest.as_ref()?;
                let at = rest.binary_search_by(|(at, _)| at.cmp(key)).ok()?;
                rest.get(at).map(|(_, value)| value)
            }
        }
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.first {
            Some((first, value)) if first == key => Some(value),
            _ => {
                let rest = self.rest.as_mut()?;
                let at = rest.binary_search_by(|(at, _)| at.cmp(key)).ok()?;
                rest.get_mut(at).map(|(_, value)| value)
            }
        }
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.first
            .iter_mut()
            .chain(self.rest.iter_mut().flat_map(|rest| rest.iter_mut()))
            .map(|(_, value)| value)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        if self.first.as_ref().is_some_and(|(first, _)| first == key) {
            return self.pop_front().map(|(_, value)| value);
        }
        let rest = self.rest.as_mut()?;
        let at = rest.binary_search_by(|(at, _)| at.cmp(key)).ok()?;
        let removed = rest.remove(at);
        self.give_back_room();
        removed.map(|(_, value)| value)
    }

    /// Returns the entry with the lowest key.
    pub(crate) fn front(&self) -> Option<(&K, &V)> {
        self.first.as_ref().map(|(key, value)| (key, value))
    }

    pub(crate) fn pop_front(&mut self) -> Option<(K, V)> {
        let second = self.rest.as_mut().and_then(|rest| rest.pop_front());
        let popped = std::mem::replace(&mut self.first, second);
        self.give_back_room();
        popped
    }

    /// Returns the entries by increasing key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.first
            .iter()
            .chain(self.rest.iter().flat_map(|rest| rest.iter()))
            .map(|(key, value)| (key, value))
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn give_back_room(&mut self) {
        self.rest.take_if(|rest| rest.is_empty() && rest.capacity() > KEPT_ROOM);
    }
}

impl<K: Ord, V: PartialEq> PartialEq for FifoMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Ord, V: Eq> Eq for FifoMap<K, V> {}

impl<K: Ord + Hash, V: Hash> Hash for FifoMap<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.iter().for_each(|entry| entry.hash(state));
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for FifoMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut rest: VecDeque<_> = entries.into_iter().collect();
        rest.make_contiguous().sort_by(|(a, _), (b, _)| a.cmp(b));
        Self { first: rest.pop_front(), rest: (!rest.is_empty()).then(|| Box::new(rest)) }
    }
}

#[cfg(test)]
mod tests {
    use super::FifoMap;
    use std::{
        collections::BTreeMap,
        hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    };

    /// Returns a pseudo-random number generator with a fixed seed.
    fn draws() -> impl FnMut(u64) -> u64 {
        let mut state = 1_u64;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        }
    }

    #[test]
    fn operations_match_a_btree_map() {
        let mut draw = draws();
        let (mut map, mut model) = (FifoMap::default(), BTreeMap::new());
        for step in 0..20_000_u64 {
            let key = draw(40);
            match draw(8) {
                0..=2 => assert_eq!(map.insert(key, step), model.insert(key, step)),
                3 => assert_eq!(map.insert(step + 40, step), model.insert(step + 40, step)),
                4 => assert_eq!(map.pop_front(), model.pop_first()),
                5 => assert_eq!(map.get(&key), model.get(&key)),
                _ => assert_eq!(map.remove(&key), model.remove(&key)),
            }
            assert_eq!(map.front(), model.first_key_value());
            assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
            assert!(map.iter().eq(model.iter()));
        }
    }

    #[test]
    fn entries_are_sorted_when_collected() {
        let map: FifoMap<_, _> = [(3, 'c'), (1, 'a'), (2, 'b')].into_iter().collect();
        assert!(map.iter().eq([(&1, &'a'), (&2, &'b'), (&3, &'c')]));
    }

    #[test]
    fn emptied_map_frees_a_large_buffer() {
        let mut map: FifoMap<u32, u32> = (0..1_000).map(|n| (n, n)).collect();
        (0..1_000).for_each(|n| assert_eq!(map.remove(&n), Some(n)));
        assert_eq!(map.rest, None);
        map.insert(1, 1);
        assert_eq!(map.rest, None, "one entry is stored in place");
    }

    #[test]
    fn room_of_former_entries_makes_no_difference() {
        let hash = |map: &FifoMap<u32, char>| BuildHasherDefault::<DefaultHasher>::default().hash_one(map);
        let one: FifoMap<_, _> = [(1, 'a')].into_iter().collect();
        let mut same = one.clone();
        same.insert(2, 'b');
        assert_ne!(same, one);
        same.remove(&2);
        assert!(same.rest.is_some(), "the room is kept");
        assert_eq!((&same, hash(&same)), (&one, hash(&one)));
    }
}
