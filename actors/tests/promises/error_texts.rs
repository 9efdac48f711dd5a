//! What a person reads who returns an error from `main`.

use std::error::Error;

use ghostlight_actors::{
    actor::SystemError,
    contract::{ModelError, StoreError},
    definition::DefinitionError,
    vocabulary::ErrorKind,
};

/// The errors with which a first program fails.
#[test]
fn a_main_that_returns_an_error_prints_its_message() {
    let model = ModelError::new(ErrorKind::Authentication, "the key is not set: set it");
    let team = DefinitionError::Reserved {
        name: "user".to_owned(),
    };
    let returned: [Box<dyn Error>; 5] = [
        Box::new(model.clone()),
        Box::new(team.clone()),
        Box::new(SystemError::Model(model)),
        Box::new(SystemError::Definition(team)),
        Box::new(SystemError::Store(StoreError::Closed)),
    ];
    for error in returned {
        assert_eq!(format!("{error:?}"), error.to_string());
    }
}
