//! [`flags!`]: a set of flags in one byte, as a type of its own.

/// Declares a set of flags. Sets are joined with `|`; a test says whether all or any of the given
/// flags are in.
#[macro_export]
macro_rules! flags {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($(#[$flag_doc:meta])* $flag:ident = $bits:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Default)]
        $vis struct $name(u8);

        #[allow(dead_code)] // not every set needs every method
        impl $name {
            $($(#[$flag_doc])* $vis const $flag: $name = $name($bits);)+
            /// The empty set.
            $vis const NONE: $name = $name(0);

            /// The flags whose bits are set in `bits`; bits without a flag are dropped.
            $vis const fn from_bits(bits: u8) -> $name {
                $name(bits & (0 $(| $bits)+))
            }
            /// `flags` if `condition`, else none.
            $vis const fn when(condition: bool, flags: $name) -> $name {
                if condition { flags } else { $name::NONE }
            }
            /// True if all of `flags` are set.
            $vis const fn has_all(self, flags: $name) -> bool {
                self.0 & flags.0 == flags.0
            }
            /// True if at least one of `flags` is set.
            $vis const fn has_any(self, flags: $name) -> bool {
                self.0 & flags.0 != 0
            }
            /// Those that are not in `flags`.
            $vis const fn without(self, flags: $name) -> $name {
                $name(self.0 & !flags.0)
            }
            /// Takes `flags` out.
            $vis const fn remove(&mut self, flags: $name) {
                self.0 &= !flags.0;
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;
            fn bitor(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }
        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: $name) {
                self.0 |= other.0;
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                let set: Vec<&str> = [$((stringify!($flag), $name::$flag)),+]
                    .into_iter()
                    .filter_map(|(name, flag)| self.has_all(flag).then_some(name))
                    .collect();
                f.write_str(if set.is_empty() { "NONE" } else { "" })?;
                f.write_str(&set.join(" | "))
            }
        }
    };
}

#[cfg(test)]
mod tests {
    flags! {
        struct Colours {
            RED = 1,
            GREEN = 2,
            BLUE = 4,
        }
    }

    #[test]
    fn sets_are_joined_tested_and_told() {
        let mut set = Colours::RED | Colours::BLUE;
        assert!(set.has_all(Colours::RED) && set.has_all(Colours::RED | Colours::BLUE));
        assert!(!set.has_all(Colours::RED | Colours::GREEN) && set.has_any(Colours::RED | Colours::GREEN));
        assert!(!set.has_any(Colours::GREEN) && !Colours::NONE.has_any(set) && set.has_all(Colours::NONE));
        assert_eq!(format!("{set:?} {:?}", Colours::NONE), "RED | BLUE NONE");
        assert_eq!(set.without(Colours::BLUE), Colours::RED);
        set.remove(Colours::RED);
        set |= Colours::when(true, Colours::GREEN) | Colours::when(false, Colours::RED);
        assert_eq!(set, Colours::BLUE | Colours::GREEN);
        assert_eq!(Colours::from_bits(0xfc), Colours::BLUE);
    }
}
