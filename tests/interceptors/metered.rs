//! What is counted of attempts.

use super::*;

#[tokio::test(start_paused = true)]
async fn attempts_that_are_cut_off_are_counted_by_metrics() {
    let metrics = Metrics::new();
    let limited = || {
        vec![
            Intercept::new(Timeout::after(seconds(2))),
            Intercept::new(metrics.clone()),
        ]
    };
    let (tool, model) = (Script::new(&[Act::Hangs]), Script::new(&[Act::Hangs]));
    called(&tool, Effect::Read, 1, limited()).await;
    ends(asking(&["?"]), model.clone(), limited()).await;
    let counted = metrics.read();
    for (name, made) in [("tool act", tool.made()), ("model default", model.made())] {
        let (of, made) = (counted[name], u64::from(made));
        assert!(made > 0);
        assert_eq!((of.calls, of.failures, of.cut_off), (0, 0, made), "{name}");
        assert_eq!((of.total_ms, of.longest_ms), (2_000 * made, 2_000));
    }
}
