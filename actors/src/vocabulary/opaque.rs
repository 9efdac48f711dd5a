//! Types that show nothing but their name, or a few of their fields: what else they hold is code.

/// Writes a type as its name with two dots, such as `PolicyHandle(..)`; or with some of its fields, such as
/// `TextStream { run: 0198c5.., .. }`.
macro_rules! opaque {
    ($name:ident { $($field:ident),* }) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
    ($($name:ident$(<$argument:ident>)?),*) => {
        $(impl$(<$argument>)? std::fmt::Debug for $name$(<$argument>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        })*
    };
}
