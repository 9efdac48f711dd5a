//! Skills: a folder of them that our server offers and our client uses.

use std::{fs, os::unix::fs::symlink, path::Path};

use ghostlight_actors::{
    contract::{ToolContext, ToolError},
    vocabulary::Arguments,
};
use ghostlight_mcp::{McpServer, McpToolset, ServerSpec};
use serde_json::{Value, json};

use crate::{
    names,
    serving::{desk, over_http},
    tool,
};

const FORMS: &str = "---\nname: pdf-forms\ndescription: >-\n  Fills forms.\n  Use it for PDFs.\nallowed-tools: [read_file, write_file]\nmetadata: { version: 1.0 }\n---\n\nAsk for each field.\n";

async fn call(toolset: &McpToolset, name: &str, arguments: Value) -> Result<String, ToolError> {
    let tool = tool(toolset, name);
    let called = tool.call(Arguments::from(arguments), ToolContext::detached());
    called.await.map(|output| output.text)
}

#[tokio::test]
async fn the_skills_of_a_folder_are_offered_and_a_model_uses_them_where_the_settings_say_so() {
    let below = format!("skills-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(below);
    let write = |path: &str, content: &[u8]| {
        let path = folder.join("skills").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("pdf-forms/SKILL.md", FORMS.as_bytes());
    write(
        "pdf-forms/references/long.md",
        "é".repeat(40_000).as_bytes(),
    );
    write("pdf-forms/form.bin", &[0xff, 0x00]);
    write("nameless/SKILL.md", b"---\ndescription: x\n---\n");
    write("leaky/SKILL.md", b"---\nname: leaky\ndescription: x\n---\n");
    fs::write(folder.join("secret"), "secret").unwrap();
    symlink(folder.join("secret"), folder.join("skills/leaky/secret")).unwrap();

    let (system, _) = desk().await;
    let server = McpServer::new(system.clone());
    let missing = server.clone().skills(folder.join("none")).unwrap_err();
    assert!(missing.to_string().contains("none"), "{missing}");
    let server = server.skills(folder.join("skills")).unwrap();
    let (url, serving) = over_http(server).await;
    let plain = McpToolset::new("hub", ServerSpec::url(&url)).unwrap();
    plain.connect().await.unwrap();
    assert!(names(&plain).is_empty());
    plain.disconnect().await;

    let hub = McpToolset::new("hub", ServerSpec::url(&url).skills()).unwrap();
    hub.connect().await.unwrap();
    assert_eq!(names(&hub), ["list_skills", "use_skill", "read_skill_file"]);
    let forms = "skill://pdf-forms/SKILL.md";
    assert_eq!(
        call(&hub, "list_skills", json!({})).await.unwrap(),
        format!("pdf-forms ({forms}): Fills forms. Use it for PDFs.")
    );
    for name in ["pdf-forms", forms] {
        let told = call(&hub, "use_skill", json!({ "name": name }))
            .await
            .unwrap();
        assert_eq!(
            told,
            "Ask for each field.\n\n(It is written for the tools read_file, write_file.)\n\n\
             (Its files, for `read_skill_file`: form.bin, references/long.md.)"
        );
    }
    let read = async |path: &str, from: u64| {
        let arguments = json!({ "name": "pdf-forms", "path": path, "from": from });
        call(&hub, "read_skill_file", arguments).await
    };
    let first = read("references/long.md", 0).await.unwrap();
    assert!(first.ends_with("go on with from 30000.)"), "{first:.20}");
    assert_eq!(
        read("references/long.md", 30_000).await.unwrap(),
        "é".repeat(10_000)
    );
    assert_eq!(read("references/long.md", u64::MAX).await.unwrap(), "");
    assert!(
        read("form.bin", 0)
            .await
            .unwrap_err()
            .message
            .contains("not text")
    );
    for path in [
        "",
        "none.md",
        "../leaky/secret",
        "../../secret",
        "references",
        "/etc/passwd",
    ] {
        let refused = read(path, 0).await.unwrap_err().message;
        assert!(refused.contains("no such file"), "{path}: {refused}");
    }
    let other = call(&hub, "use_skill", json!({ "name": "leaky" })).await;
    assert!(other.unwrap_err().message.contains("no such skill"));

    // What is offered is what was read when the server began, so that digests and contents agree.
    write(
        "pdf-forms/SKILL.md",
        b"---\nname: pdf-forms\ndescription: y\n---\n",
    );
    assert_eq!(
        hub.skill_file("pdf-forms", "SKILL.md").await.unwrap(),
        FORMS
    );
    hub.disconnect().await;
    serving.abort();

    let (url, serving) = over_http(McpServer::new(system)).await;
    let bare = McpToolset::new("bare", ServerSpec::url(url).skills()).unwrap();
    bare.connect().await.unwrap();
    assert!(bare.skills().await.is_err());
    bare.disconnect().await;
    serving.abort();
    fs::remove_dir_all(folder).unwrap();
}
