//! Pieces of an answer wait until it is judged.

use std::sync::{Arc, atomic::Ordering};

use ghostlight::{
    contract::{Interceptor, ModelContext, ModelError, NextModel},
    interceptors::{Retry, Validation},
    run::Intercept,
    vocabulary::{Delta, ModelRequest, ModelResponse, Preview},
};
use parking_lot::Mutex;

use crate::{Says, asks, watched};

/// Notes what is shown through it, which no result overtakes.
#[derive(Clone, Default)]
struct Window(Arc<Mutex<String>>);

impl Interceptor for Window {
    async fn model(
        &self,
        request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let seen = self.0.clone();
        let cx = cx.previews_through(move |preview| {
            if let Preview::Delta {
                delta: Delta::Text(text),
                ..
            } = &preview
            {
                seen.lock().push_str(text);
            }
            Some(preview)
        });
        next.respond(request, cx).await
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_of_an_answer_is_shown_before_it_is_judged() {
    async fn seen(model: Says, by: Vec<Intercept>) -> (Result<String, String>, String) {
        let window = Window::default();
        let by: Vec<Intercept> = [Intercept::new(window.clone())]
            .into_iter()
            .chain(by)
            .collect();
        let (answer, _) = watched(asks("x"), model, by).await;
        let seen = window.0.lock().clone();
        (answer, seen)
    }
    let pieces = ["the pass", "word is swordfish", ", and no more"];
    for rules in [
        Validation::new().block_output("swordfish"),
        Validation::new().max_output(20),
    ] {
        let (refused, shown) = seen(Says::of(&pieces), vec![Intercept::new(rules)]).await;
        assert!(refused.unwrap_err().contains("the answer "));
        assert_eq!(shown, "", "nothing got out");
    }
    // What may pass is shown, whole and in its order.
    let rules = || Intercept::new(Validation::new().block_output("sword").max_output(100));
    let (answer, shown) = seen(Says::of(&["good", " ", "morning"]), vec![rules()]).await;
    assert_eq!(answer.unwrap(), "good morning");
    assert_eq!(shown, "good morning");
    // Nothing of an attempt that failed is.
    let model = Says::of(&["Mail ", "me"]);
    model.failures.store(1, Ordering::SeqCst);
    let by = vec![rules(), Intercept::new(Retry::attempts(2))];
    let (answer, shown) = seen(model, by).await;
    assert_eq!(answer.unwrap(), "Mail me");
    assert_eq!(shown, "Mail me");
    // Without a rule for answers nothing waits.
    let by = vec![Intercept::new(Validation::new().max_input(100))];
    let (_, shown) = seen(Says::of(&["a", "b"]), by).await;
    assert_eq!(shown, "ab");
}
