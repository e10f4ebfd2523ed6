//! Sets of radios and of access categories, a bit for each.

/// Some of the radios.
#[derive(Debug, Default)]
pub(super) struct RadioSet {
    words: Vec<u64>,
}

impl RadioSet {
    /// None of `n` radios.
    pub(super) fn of(n: usize) -> RadioSet {
        RadioSet { words: vec![0; n.div_ceil(64)] }
    }
    #[inline]
    pub(super) fn put(&mut self, r: usize, is_in: bool) {
        let word = &mut self.words[r / 64];
        *word = *word & !(1 << (r % 64)) | u64::from(is_in) << (r % 64);
    }
    #[inline]
    pub(super) fn remove(&mut self, r: usize) {
        self.put(r, false);
    }
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }
    /// How many words it has.
    #[inline]
    pub(super) fn word_count(&self) -> usize {
        self.words.len()
    }
    /// Those of a word as it stands now, in ascending order.
    #[inline]
    pub(super) fn of_word(&self, word: usize) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.words[word];
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(64 * word + bit)
        })
    }
}

/// The numbers of the bits that are set, in ascending order.
#[inline]
pub(super) fn bits(mut mask: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let bit = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        Some(bit)
    })
}
