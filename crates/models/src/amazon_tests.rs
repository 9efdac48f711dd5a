#![allow(clippy::unwrap_used)]

use std::{
    fs,
    sync::{Arc, Mutex},
};

use secrecy::ExposeSecret as _;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
};

use super::*;
use crate::{Bedrock, bedrock::BedrockSpec};

/// Asks the chain where these variables are set and no others.
async fn found(profile: Option<&str>, set: &[(&str, &str)]) -> Result<Keys, CredentialError> {
    let variable = |name: &str| {
        let found = set.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let chain = Chain {
        profile,
        variable: &variable,
    };
    let written = chain.keys().await?;
    Ok(Keys {
        id: written.access_key_id,
        secret: written.secret_access_key.into(),
        token: written.session_token.map(Into::into),
    })
}

fn shown(keys: &Keys) -> (&str, &str, Option<&str>) {
    let token = keys.token.as_ref().map(|token| token.expose_secret());
    (&keys.id, keys.secret.expose_secret(), token)
}

/// A server that gives these bodies by the paths of its requests, and keeps the heads of all requests.
async fn server(
    bodies: &'static [(&'static str, &'static str)],
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = heads.clone();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let mut socket = BufReader::new(socket);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && socket.read_line(&mut head).await.unwrap() > 0 {}
            let path = head.split(' ').nth(1).unwrap_or_default();
            let body = bodies.iter().find(|(known, _)| *known == path);
            let (status, body) = body.map_or((404, "no"), |(_, body)| (200, *body));
            kept.lock().unwrap().push(head.clone());
            let answer = format!(
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            socket.get_mut().write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (address, heads)
}

#[tokio::test]
async fn variables_win_over_files_and_a_named_profile_wins_over_variables() {
    let folder = tempfile::tempdir().unwrap();
    let (keys, config) = (
        folder.path().join("credentials"),
        folder.path().join("config"),
    );
    let of_keys = "# ours\n[default]\naws_access_key_id = AKFILE\naws_secret_access_key=hunter2\n\n[ desk ]\naws_access_key_id = AKDESK\naws_secret_access_key = hunter3\naws_session_token = t=1\n";
    fs::write(&keys, of_keys).unwrap();
    let of_config = "[default]\nregion = eu-west-1\n[profile desk]\nregion = eu-west-2\ns3 =\n  region = x\n[profile printed]\ncredential_process = echo '{\"Version\": 1, \"AccessKeyId\": \"AKPROC\",' '\"SecretAccessKey\": \"hunter4\"}'\n[profile signed]\nsso_session = us\n[profile silent]\ncredential_process = echo hunter5; exit 3\n";
    fs::write(&config, of_config).unwrap();
    let files = [
        ("AWS_SHARED_CREDENTIALS_FILE", keys.to_str().unwrap()),
        ("AWS_CONFIG_FILE", config.to_str().unwrap()),
    ];
    let variables = [
        ("AWS_ACCESS_KEY_ID", "AKENV"),
        ("AWS_SECRET_ACCESS_KEY", "hunter1"),
        ("AWS_REGION", "us-east-2"),
    ];
    let all: Vec<_> = files.iter().chain(&variables).copied().collect();
    let of_variables = found(None, &all).await.unwrap();
    assert_eq!(shown(&of_variables), ("AKENV", "hunter1", None));
    let of_default = found(None, &files).await.unwrap();
    assert_eq!(shown(&of_default), ("AKFILE", "hunter2", None));
    let of_desk = found(Some("desk"), &all).await.unwrap();
    assert_eq!(shown(&of_desk), ("AKDESK", "hunter3", Some("t=1")));
    let named = [files.as_slice(), &[("AWS_PROFILE", "desk")]].concat();
    assert_eq!(shown(&found(None, &named).await.unwrap()).0, "AKDESK");
    let region = |profile, set: &[(&str, &str)]| {
        let variable = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let chain = Chain {
            profile,
            variable: &variable,
        };
        chain.region()
    };
    assert_eq!(region(None, &all).as_deref(), Some("us-east-2"));
    assert_eq!(region(None, &files).as_deref(), Some("eu-west-1"));
    assert_eq!(region(Some("desk"), &all).as_deref(), Some("eu-west-2"));
    assert_eq!(region(Some("signed"), &all).as_deref(), Some("us-east-2"));
    if cfg!(unix) {
        let printed = found(Some("printed"), &all).await.unwrap();
        assert_eq!(shown(&printed), ("AKPROC", "hunter4", None));
    }
    for (profile, told) in [
        ("signed", "export-credentials --profile signed"),
        ("silent", "credential_process of the profile silent"),
        ("absent", "the profile absent has neither keys"),
    ] {
        let Err(error) = found(Some(profile), &all).await else {
            panic!("{profile}");
        };
        let error = error.to_string();
        assert!(error.contains(told) && !error.contains("hunter"), "{error}");
    }
}

#[tokio::test]
async fn a_container_and_a_machine_give_keys_that_end() {
    const KEYS: &str = r#"{"Code": "Success", "AccessKeyId": "ASIA", "SecretAccessKey": "hunter2", "Token": "t", "Expiration": "2999-01-01T00:00:00Z"}"#;
    let (container, heads) = server(&[("/keys", KEYS)]).await;
    let url = format!("{container}/keys");
    let set = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod"),
    ];
    let keys = found(None, &set).await.unwrap();
    assert_eq!(shown(&keys), ("ASIA", "hunter2", Some("t")));
    assert!(heads.lock().unwrap()[0].contains("authorization: pod\r\n"));
    let far = [(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "http://example.com/keys",
    )];
    let Err(error) = found(None, &far).await else {
        panic!("keys went over plain http");
    };
    assert!(error.to_string().contains("not https"), "{error}");

    const ROLE: &str = "/latest/meta-data/iam/security-credentials/desk";
    let (machine, heads) = server(&[
        ("/latest/api/token", "session"),
        ("/latest/meta-data/iam/security-credentials/", "desk\n"),
        (ROLE, KEYS),
    ])
    .await;
    let set = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.as_str())];
    assert_eq!(shown(&found(None, &set).await.unwrap()).0, "ASIA");
    let heads = heads.lock().unwrap().clone();
    assert!(heads[0].starts_with("PUT /latest/api/token "));
    assert!(heads[0].contains("x-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"));
    assert!(
        heads[1..]
            .iter()
            .all(|head| head.contains("x-aws-ec2-metadata-token: session\r\n"))
    );
    let off = [set[0], ("AWS_EC2_METADATA_DISABLED", "true")];
    let Err(error) = found(None, &off).await else {
        panic!("the machine was asked");
    };
    assert!(
        error.to_string().contains("set AWS_ACCESS_KEY_ID"),
        "{error}"
    );
}

#[test]
fn keys_last_until_their_end_and_a_text_that_is_no_object_is_a_token() {
    assert!(Keys::read("bedrock-api-key-abc").unwrap().is_none());
    let Err(error) = Keys::read(r#"{"AccessKeyId": "AK", "SecretAccessKey": 7, "x": "hunter2"}"#)
    else {
        panic!("it has no secret key");
    };
    assert!(!error.to_string().contains("hunter2"));
    let soon = Timestamp::now() + jiff::Span::new().minutes(10);
    let text = json!({"AccessKeyId": "A", "SecretAccessKey": "B", "Expiration": soon.to_string()});
    let fresh = Written::read(text.to_string().as_bytes()).unwrap().fresh();
    let lasts = format!("{fresh:?}");
    assert!(
        lasts.contains("lasts: 59") || lasts.contains("lasts: 600"),
        "{lasts}"
    );
}

#[test]
fn a_server_that_is_not_amazons_gets_keys_that_were_given_for_it_alone() {
    assert!(key("example.com", None, None).is_none());
    assert!(key("amazonaws.com.example.com", None, None).is_none());
    assert!(key("example.com", None, Some("desk")).is_some());
    let host = "bedrock-runtime.eu-west-1.amazonaws.com";
    assert!(key(host, None, None).is_some());
    let given = Secret::variable("MINE");
    assert_eq!(key("example.com", Some(&given), None), Some(given));
}

#[test]
fn only_bedrocks_own_names_below_amazons_domains_get_default_keys_and_name_a_region() {
    for (own, region) in [
        ("bedrock-runtime.eu-west-1.amazonaws.com", "eu-west-1"),
        ("bedrock-runtime.eu-west-1.amazonaws.com:8443", "eu-west-1"),
        (
            "bedrock-runtime-fips.us-gov-east-1.amazonaws.com",
            "us-gov-east-1",
        ),
        ("bedrock-runtime.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("bedrock-runtime.us-west-2.api.aws", "us-west-2"),
        (
            "vpce-0a-1b.bedrock-runtime.us-east-1.vpce.amazonaws.com",
            "us-east-1",
        ),
    ] {
        assert_eq!(region_of(own), Some(region), "{own}");
        assert!(key(own, None, None).is_some(), "{own}");
    }
    for strange in [
        "abc.execute-api.eu-west-1.amazonaws.com",
        "bedrock-runtime.eu-west-1.elb.amazonaws.com",
        "bedrock-runtime.s3.amazonaws.com",
        "bedrock-runtime.s3-us-west-2.amazonaws.com",
        "bedrock-runtime.s3.us-west-2.amazonaws.com",
        "vpce-0a.vpce-svc-1b.us-east-1.vpce.amazonaws.com",
        "ec2-1-2-3-4.eu-west-1.compute.amazonaws.com",
        "bedrock.eu-west-1.amazonaws.com",
        "x-bedrock-runtime.eu-west-1.amazonaws.com",
        "bedrock-runtime.eu-west-1.amazonaws.com.example.com",
        "eu-west-1.amazonaws.com",
        "",
    ] {
        assert_eq!(region_of(strange), None, "{strange}");
        assert!(key(strange, None, None).is_none(), "{strange}");
    }
}

#[test]
fn a_request_is_signed_for_the_region_of_its_address_and_refused_without_one() {
    let at = |address: &str| {
        let mut settings = BedrockSpec::new("nova");
        settings.base_url = address.to_owned();
        settings
    };
    let own = at("https://bedrock-runtime.eu-west-1.amazonaws.com");
    assert_eq!(own.region().as_deref(), Some("eu-west-1"));
    let mut other = at("https://proxy.example.com");
    other.profile = Some("nobodys".to_owned());
    // The machine may name a region for all.
    if region(Some("nobodys")).is_none() {
        let refused = Bedrock::from(other.clone()).check().unwrap_err();
        assert!(refused.message.contains("set `region`"), "{refused:?}");
    }
    other.region = Some("eu-west-3".to_owned());
    Bedrock::from(other).check().unwrap();
    let mut token = at("https://proxy.example.com");
    token.api_key = Some(Secret::value("a-token"));
    Bedrock::from(token).check().unwrap();
}
