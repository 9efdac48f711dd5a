//! Clients that none of us wrote use `ghostlight protocol mcp` and the endpoint of `ghostlight serve`: the official ones for Python and
//! TypeScript, and the inspector's command line. `./test` installs them.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{peer::Peer, serving::command};

/// The folder with the clients; `None` where they are to be left out.
fn peers() -> Option<PathBuf> {
    if std::env::var_os("GHOSTLIGHT_SKIP_MCP_PEERS").is_some_and(|skip| skip == "1") {
        println!("left out: GHOSTLIGHT_SKIP_MCP_PEERS=1");
        return None;
    }
    let peers = std::env::var_os("GHOSTLIGHT_MCP_PEERS");
    Some(PathBuf::from(peers.expect(
        "GHOSTLIGHT_MCP_PEERS names the folder into which ./test installs the clients",
    )))
}

/// The command and its arguments, as another client starts it.
fn server(folder: &Path) -> Vec<OsString> {
    let arguments = command(folder).args.into_iter().map(OsString::from);
    std::iter::once(env!("CARGO_BIN_EXE_ghostlight").into())
        .chain(arguments)
        .collect()
}

/// What a client prints, which must end well within a minute.
fn printed<A: AsRef<OsStr>>(
    program: &Path,
    home: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> String {
    let mut client = Command::new("timeout");
    let client = client.arg("60").arg(program).args(arguments);
    // The inspector keeps files of its own in the home folder.
    let output = client.env("HOME", home).output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{err}");
    out.into_owned()
}

fn has(out: &str, lines: &[&str]) {
    for line in lines {
        assert!(out.contains(line), "no {line:?} in {out}");
    }
}

/// What the official client for Python does with the command: both lifecycles, a call, a resource.
const PYTHON: &str = r#"
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            print("tools", [tool.name for tool in tools])
            told = []
            async def progress(done, total, message):
                told.append(message)
            result = await session.call_tool(
                "clerk", {"message": "What is 17% of 2340?", "session": "py"}, progress_callback=progress)
            print("answer", result.content[0].text)
            print("progress", told)
            resources = (await session.list_resources()).resources
            print("resources", [str(resource.uri) for resource in resources])
            read = await session.read_resource(resources[0].uri)
            print("read", "2340" in read.contents[0].text)

asyncio.run(main())
"#;

#[test]
fn the_official_client_for_python_uses_the_command() {
    let Some(peers) = peers() else { return };
    let folder = Peer::new("python", &[]).folder;
    let script = ["-c", PYTHON].map(OsString::from).into_iter();
    let python = peers.join("venv/bin/python");
    let out = printed(&python, &folder, script.chain(server(&folder)));
    has(
        &out,
        &[
            "tools ['clerk']",
            "397.8",
            "progress ['calls calculator'",
            "resources ['ghostlight://sessions/clerk/py']",
            "read True",
        ],
    );
}

/// Has the script use a server with a package in a revision.
fn typescript(peers: &Path, folder: &Path, (package, revision): (&str, &str), server: &[OsString]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_teams/client.mjs");
    let arguments = [script.into(), package.into(), revision.into()].into_iter();
    let node = peers.join("node_modules/node/bin/node");
    let out = printed(&node, folder, arguments.chain(server.iter().cloned()));
    has(
        &out,
        &[
            r#"tools ["clerk"]"#,
            "397.8",
            r#"progress ["calls calculator""#,
            r#"resources ["ghostlight://sessions/clerk/ts"]"#,
            "read true",
            "there is no tool",
        ],
    );
}

/// The packages of the official client for TypeScript, each with the revisions that it is to speak.
const TYPESCRIPT: [(&str, &str); 3] = [
    ("client", "2026-07-28"),
    ("client", "2025-11-25"),
    ("sdk", "2025-11-25"),
];

#[test]
fn the_official_clients_for_typescript_use_the_command() {
    let Some(peers) = peers() else { return };
    for (package, revision) in TYPESCRIPT {
        let folder = Peer::new(&format!("typescript-{package}-{revision}"), &[]).folder;
        typescript(&peers, &folder, (package, revision), &server(&folder));
    }
}

/// What the inspector prints of a server, as JSON.
fn inspected(peers: &Path, home: &Path, server: &[OsString], asked: &[&str]) -> Value {
    let inspector = peers.join("node_modules/.bin/mcp-inspector").into();
    let arguments = [inspector, OsString::from("--cli")].into_iter();
    let arguments = arguments
        .chain(server.iter().cloned())
        .chain(asked.iter().map(OsString::from))
        .chain(["--format", "json"].map(OsString::from));
    let node = peers.join("node_modules/node/bin/node");
    let out = printed(&node, home, arguments);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// Has the inspector list, call and read; `extra` goes with each request.
fn inspect(peers: &Path, home: &Path, server: &[OsString], extra: &[&str]) {
    let ask = |asked: &[&str]| inspected(peers, home, server, &[asked, extra].concat());
    // Its strict mode fails where a schema of a tool cannot be used by every client.
    let tools = ask(&["--method", "tools/list", "--strict"]);
    assert_eq!(tools["result"]["tools"][0]["name"], "clerk", "{tools}");
    let call = [
        "--method",
        "tools/call",
        "--tool-name",
        "clerk",
        "--tool-arg",
    ];
    let with = ["message=What is 17% of 2340?", "session=seen"];
    let called = ask(&[&call[..], &with[..]].concat());
    let text = called["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("397.8"), "{called}");
    let listed = ask(&["--method", "resources/list"]);
    let uri = "ghostlight://sessions/clerk/seen";
    assert_eq!(listed["result"]["resources"][0]["uri"], uri, "{listed}");
    let read = ask(&["--method", "resources/read", "--uri", uri]);
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(text.contains("2340"), "{read}");
}

#[test]
fn the_inspector_uses_the_command() {
    let Some(peers) = peers() else { return };
    let folder = Peer::new("inspector", &[]).folder;
    inspect(&peers, &folder, &server(&folder), &[]);
}

#[cfg(feature = "full")]
#[test]
fn the_official_clients_for_typescript_and_the_inspector_use_the_endpoint() {
    use crate::over_http::{Serving, key};

    let Some(peers) = peers() else { return };
    for (number, (package, revision)) in TYPESCRIPT.into_iter().enumerate() {
        let folder = Peer::new(&format!("endpoint-{number}"), &[]).folder;
        let key = key(&folder, "ada");
        let serving = Serving::start(&folder);
        let server = [serving.url.clone().into(), key.clone().into()];
        typescript(&peers, &folder, (package, revision), &server);
        if number == 0 {
            let header = format!("authorization: Bearer {key}");
            inspect(&peers, &folder, &server[..1], &["--header", &header]);
        }
    }
}
