//! Types that show nothing but their name: what they hold is code.

/// Writes a type as its name with two dots, such as `PolicyHandle(..)`.
macro_rules! opaque {
    ($($name:ident$(<$argument:ident>)?),*) => {
        $(impl$(<$argument>)? std::fmt::Debug for $name$(<$argument>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        })*
    };
}
