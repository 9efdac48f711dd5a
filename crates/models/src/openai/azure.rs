//! The addresses of Azure OpenAI.
//!
//! There are two forms. `https://NAME.openai.azure.com/openai/v1` takes the name of a deployment as the model's name, and
//! needs no version. `https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT` needs a version with each request.

/// The version of the interface where no setting names one.
pub(super) const VERSION: &str = "2024-10-21";

/// The address up to and without `/chat/completions`, for an address that may end at the server: then the deployment has
/// the model's name.
pub(super) fn deployment(base: &str, model: &str) -> String {
    let base = base.trim_end_matches('/');
    let path = base.split_once("://").map_or(base, |(_, rest)| rest);
    let path = path.split_once('/').map_or("", |(_, path)| path);
    match path {
        "" => format!("{base}/openai/deployments/{model}"),
        "openai" => format!("{base}/deployments/{model}"),
        _ => base.to_owned(),
    }
}

/// The address of the form without versions, for an address that may end at the server.
pub(crate) fn v1(base: &str) -> String {
    let base = base.trim_end_matches('/');
    let path = base.split_once("://").map_or(base, |(_, rest)| rest);
    match path.split_once('/').map_or("", |(_, path)| path) {
        "" => format!("{base}/openai/v1"),
        "openai" => format!("{base}/v1"),
        _ => base.to_owned(),
    }
}

/// Whether requests to this address need a version.
pub(super) fn needs_version(base: &str) -> bool {
    base.contains("/openai/deployments/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_address_are_known_and_the_bare_server_is_completed() {
        for (given, meant, needs) in [
            (
                "https://desk.openai.azure.com",
                "https://desk.openai.azure.com/openai/deployments/gpt",
                true,
            ),
            (
                "https://desk.openai.azure.com/openai/",
                "https://desk.openai.azure.com/openai/deployments/gpt",
                true,
            ),
            (
                "https://desk.openai.azure.com/openai/deployments/other",
                "https://desk.openai.azure.com/openai/deployments/other",
                true,
            ),
            (
                "https://desk.openai.azure.com/openai/v1/",
                "https://desk.openai.azure.com/openai/v1",
                false,
            ),
        ] {
            let base = deployment(given, "gpt");
            assert_eq!((base.as_str(), needs_version(&base)), (meant, needs));
        }
        let server = "https://desk.openai.azure.com";
        for given in [
            server.to_owned(),
            format!("{server}/openai"),
            format!("{server}/openai/v1/"),
        ] {
            assert_eq!(v1(&given), format!("{server}/openai/v1"));
        }
    }
}
