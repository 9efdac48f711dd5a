//! Setters of options.

/// Gives options a setter for each of these fields, under the field's name. Fields behind `or none` have one that takes
/// their value without `Some`. For the packages of Ghostlight.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($options:ident { $($field:ident: $type:ty),* $(,)? } $(or none { $($some:ident: $of:ty),* $(,)? })?) => {
        impl $options {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
            $($(
                #[doc = concat!("Sets [`", stringify!($some), "`](field@Self::", stringify!($some), ").")]
                #[must_use]
                pub fn $some(mut self, $some: $of) -> Self {
                    self.$some = Some($some);
                    self
                }
            )*)?
        }
    };
}
