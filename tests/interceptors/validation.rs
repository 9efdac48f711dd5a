//! What may not pass, in other words.

use ghostlight::{
    interceptors::Validation,
    run::{Agent, Intercept, RunContext},
    vocabulary::{Effect, Outcome, ToolCall},
};

use crate::{Act, Script, Scripted, ends};

#[tokio::test(start_paused = true)]
async fn arguments_are_looked_at_as_a_tool_reads_them_however_they_are_written() {
    let script = Script::new(&[Act::Answers]);
    for arguments in [
        r#"{ "q": "\u0044ROP TABLE" }"#,
        r#"{ "list": [{ "D\u0052OP": 1 }] }"#,
        r#"{ "q": "x", "flag" : \ttrue }"#,
    ] {
        let arguments = arguments.replace("\\t", "\t");
        let call = Agent::from_fn("a", move |cx: RunContext| {
            let call = ToolCall::new("1", "act", arguments.as_str());
            async move {
                let result = cx.tool(call).await?;
                let told = [format!("{:?}", result.status)];
                Ok(Outcome::answer(serde_json::to_string(&told).unwrap()))
            }
        });
        let call = call.tool(Scripted(script.clone(), Effect::Once));
        let rules = Validation::new().block("DROP").block(r#""flag":true"#);
        let told = ends(call, script.clone(), vec![Intercept::new(rules)]).await;
        assert_eq!(told, ["Denied"]);
    }
    assert_eq!(script.made(), 0);
}
