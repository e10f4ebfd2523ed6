//! Tables as values: named columns of equal length, each with its unit and meaning. Simulator and
//! capture analysis produce them; bindings and reference pages are generic over them.

use std::any::Any;
use std::borrow::Cow;

/// A named table of equally long columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// As files and readers of results name it.
    pub name: &'static str,
    /// Which rows it has, in a sentence or two.
    pub about: &'static str,
    /// In the order in which they are shown.
    pub columns: Vec<Column>,
}

/// A column: its name, its unit and meaning, its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Ends in the unit where there is one.
    pub name: &'static str,
    /// The unit, if there is one, then the meaning.
    pub unit_and_meaning: &'static str,
    /// One value for each row.
    pub data: Data,
}

/// Values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Counts and times.
    U64(Vec<u64>),
    /// Small counts and identifiers.
    U32(Vec<u32>),
    /// Measures; NaN where there is none.
    F64(Vec<f64>),
    /// Names.
    Str(Vec<Cow<'static, str>>),
    /// Yes or no.
    Bool(Vec<bool>),
}

impl Data {
    /// Values.
    pub fn len(&self) -> usize {
        match self {
            Data::U64(v) => v.len(),
            Data::U32(v) => v.len(),
            Data::F64(v) => v.len(),
            Data::Str(v) => v.len(),
            Data::Bool(v) => v.len(),
        }
    }
    /// True if it has no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    /// Rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |c| c.data.len())
    }
    /// True if it has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The values of a column.
    pub fn column(&self, name: &str) -> Option<&Data> {
        self.columns.iter().find(|c| c.name == name).map(|c| &c.data)
    }
}

/// Storage of a [`table!`], whichever table it is.
pub trait Rows: Any + Send {
    /// The finished table.
    fn into_table(self: Box<Self>) -> Table;
    /// To find out which one it is.
    fn as_any(&self) -> &dyn Any;
    /// To find out which one it is, and add to it.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// Declares a table: a row type, the columns it is stored in and how they become a [`Table`]. Every
/// column states its unit and meaning; the comment on the table says which rows it has. A column
/// may have another type until then, one that converts into that of its [`Data`].
#[macro_export]
macro_rules! table {
    ($(#[doc = $doc:literal])* $(#[derive($($derive:ident),+)])? $vis:vis $columns:ident of $row:ident as $name:literal {
        $($column:ident: $kind:ident($type:ty) = $meaning:literal,)+
    }) => {
        $(#[doc = $doc])*
        $(#[derive($($derive),+)])?
        $vis struct $row { $($vis $column: $type,)+ }

        #[derive(Debug, Default)]
        $vis struct $columns { $($column: Vec<$type>,)+ }

        impl $columns {
            /// No row, and room for so many.
            #[allow(dead_code)] // only where they are counted before
            $vis fn with_capacity(rows: usize) -> $columns {
                $columns { $($column: Vec::with_capacity(rows),)+ }
            }
            /// Makes room for so many rows more.
            #[allow(dead_code)] // only where they are counted before
            $vis fn reserve(&mut self, rows: usize) {
                $(self.$column.reserve_exact(rows);)+
            }
            /// Appends a row.
            $vis fn push(&mut self, row: $row) {
                $(self.$column.push(row.$column);)+
            }
            /// How many rows there are.
            #[allow(dead_code)] // only tables that can outgrow a run are asked
            $vis fn count(&self) -> usize {
                [$(self.$column.len()),+][0]
            }
            /// Rows of several, each named by whose it is and its place there.
            #[allow(dead_code)] // only runs in parts need it
            $vis fn gather(from: &[&$columns], order: &[(usize, usize)]) -> $columns {
                $columns { $($column: order.iter().map(|&(whose, row)| from[whose].$column[row].clone()).collect(),)+ }
            }
            /// The finished table.
            $vis fn into_table(self) -> $crate::table::Table {
                $crate::table::Table {
                    name: $name,
                    about: concat!($($doc),*).trim_ascii(),
                    columns: vec![$($crate::table::Column {
                        name: stringify!($column),
                        unit_and_meaning: $meaning,
                        data: $crate::table::Data::$kind(self.$column.into_iter().map(Into::into).collect()),
                    },)+],
                }
            }
        }

        impl $crate::table::Rows for $columns {
            fn into_table(self: Box<Self>) -> $crate::table::Table {
                (*self).into_table()
            }
            fn as_any(&self) -> &dyn std::any::Any {
                self
            }
            fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
                self
            }
        }
    };
}
