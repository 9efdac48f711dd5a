//! What the compiler says of a mistake in `#[tool]`. Most messages are tested without a compiler,
//! beside the macro; these show that they stand at the right place, and what becomes of types
//! that do not fit. `TRYBUILD=overwrite` writes the expected texts again.
#![allow(missing_docs)]

#[test]
fn a_mistake_is_shown_where_it_is_made() {
    trybuild::TestCases::new().compile_fail("tests/tool_macro/*.rs");
}
