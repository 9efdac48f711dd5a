//! What is asked of a launcher is read strictly, and nothing is started that it does not understand.

use std::process::Command;

use proptest::prelude::*;
use serde_json::{Value, json};

/// What a launcher says when it is asked this, about a command that prints a word.
fn launch(arguments: &[&str]) -> (Option<i32>, String, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_ghostlight-launcher"))
        .arg("--ghostlight-launch")
        .args(arguments)
        .args(["/usr/bin/echo", "started"])
        .env_clear()
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
}

fn request() -> Value {
    json!({
        "read": ["/lib", "/lib64", "/usr", "/etc/ld.so.cache"],
        "write": [],
        "network": false,
        "required": false,
        "alone": false,
        "bubblewrap": false,
        "limits": { "cpu_s": 5, "memory_bytes": 1_u64 << 30, "file_bytes": 0, "open_files": 32, "processes": 256 },
    })
}

#[test]
fn a_request_is_kept_whole_or_refused() {
    assert_eq!(launch(&[&request().to_string()]).1, "started\n");
    let mut wrong = vec![
        String::new(),
        "{".to_owned(),
        "[]".to_owned(),
        "alone".to_owned(),
    ];
    for (field, value) in [
        ("network", json!("no")),
        ("bubblewrap", json!("bwrap")),
        ("read", json!("/")),
        ("limits", json!(null)),
        ("more", json!(1)),
    ] {
        let mut request = request();
        request[field] = value;
        wrong.push(request.to_string());
    }
    for field in ["required", "alone", "bubblewrap", "write", "network"] {
        let mut request = request();
        request.as_object_mut().unwrap().remove(field);
        wrong.push(request.to_string());
    }
    for wrong in wrong {
        let (code, out, err) = launch(&[&wrong]);
        assert_eq!((code, out.as_str()), (Some(125), ""), "{wrong}: {err}");
        assert!(err.starts_with("ghostlight-launcher: "), "{wrong}: {err}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_request_makes_it_panic(text in "[ -~]{0,40}", field in 0_usize..7, value in 0_usize..8, whole in any::<bool>()) {
        let fields = ["read", "write", "network", "required", "alone", "bubblewrap", "limits"];
        let values = [
            json!(null), json!(true), json!([]), json!({}), json!(["\u{0}", "/nowhere", "", "."]), json!(-1),
            json!({ "cpu_s": 0, "memory_bytes": 0, "open_files": 0 }), json!({ "processes": u64::MAX }),
        ];
        let mut changed = request();
        changed[fields[field]] = values[value].clone();
        let asked = if whole { changed.to_string() } else { text };
        let (code, _, err) = launch(&[&asked]);
        prop_assert!(!err.contains("panicked"), "{asked}: {err}");
        prop_assert!(code != Some(101), "{asked}: {err}");
    }
}
