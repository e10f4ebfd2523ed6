//! A first-in first-out queue in a buffer whose size is a power of two: less to do for each element
//! than in a `VecDeque`, which fits any size. This is where every packet passes several times.

#[derive(Debug)]
pub(crate) struct Ring<T> {
    buffer: Box<[T]>,
    /// Counts on; modulo the size of the buffer it is where the front is.
    front: u32,
    len: u32,
}

impl<T> Default for Ring<T> {
    fn default() -> Ring<T> {
        Ring { buffer: Box::default(), front: 0, len: 0 }
    }
}

impl<T: Copy + Default> Ring<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }
    /// The `i`-th from the front. Panics in a ring that was always empty; beyond the last it is any
    /// element.
    #[inline]
    pub(crate) fn at(&self, i: usize) -> &T {
        &self.buffer[(self.front as usize).wrapping_add(i) & (self.buffer.len().wrapping_sub(1))]
    }
    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        if self.len > 0 { Some(self.at(0)) } else { None }
    }
    pub(crate) fn back(&self) -> Option<&T> {
        self.len().checked_sub(1).map(|last| self.at(last))
    }
    #[inline(always)]
    pub(crate) fn push_back(&mut self, element: T) {
        if self.len() == self.buffer.len() {
            self.grow();
        }
        let mask = self.buffer.len() - 1;
        self.buffer[(self.front.wrapping_add(self.len) as usize) & mask] = element;
        self.len += 1;
    }
    /// Panics if it is empty.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> T {
        let element = *self.at(0);
        self.len -= 1;
        self.front = self.front.wrapping_add(1);
        element
    }
    /// Puts back what was just taken out.
    pub(crate) fn unpop(&mut self, element: T) {
        self.front = self.front.wrapping_sub(1);
        self.len += 1;
        let mask = self.buffer.len() - 1;
        self.buffer[self.front as usize & mask] = element;
    }
    /// When it is empty: more than a little room goes back.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        if self.len == 0 && self.buffer.len() > 16 {
            self.buffer = Box::default();
        }
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).map(|i| self.at(i))
    }
    /// To twice the size.
    #[cold]
    fn grow(&mut self) {
        let size = (2 * self.len()).max(4);
        let mut buffer = Vec::with_capacity(size);
        buffer.extend(self.iter().copied());
        buffer.resize(size, T::default());
        self.buffer = buffer.into_boxed_slice();
        self.front = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_deque(steps in prop::collection::vec((0u8..5, any::<u32>()), 0..500)) {
            let (mut ring, mut model) = (Ring::default(), VecDeque::new());
            for (kind, value) in steps {
                match kind {
                    0 | 1 => {
                        ring.push_back(value);
                        model.push_back(value);
                    }
                    4 => ring.give_back(),
                    _ if model.is_empty() => {}
                    2 => prop_assert_eq!(Some(ring.pop_front()), model.pop_front()),
                    _ => {
                        let first = ring.pop_front();
                        ring.unpop(first);
                    }
                }
                prop_assert_eq!((ring.len(), ring.front(), ring.back()), (model.len(), model.front(), model.back()));
                prop_assert!(ring.iter().eq(&model));
            }
        }
    }
}
