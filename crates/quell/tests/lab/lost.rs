//! What is lost, what is late, and what nobody can know: a loss is told only where it is certain.

use super::support::{Results, TestFolder, UDP, near, two_hosts};

/// Whether a claim held, and what was found.
fn verdict<'a>(results: &'a Results, claim: &str) -> (bool, &'a str) {
    let all = results.json["expectations"].as_array().expect("a list of claims");
    let found = all.iter().find(|e| e["claim"] == claim).expect("the claim was checked");
    (found["held"] == true, found["found"].as_str().expect("a text"))
}

/// Behind the last answer nobody can tell on which way a packet was lost. A load goes one way.
#[test]
fn where_nothing_comes_back_any_more_nobody_claims_to_know_the_direction_of_a_loss() {
    let claims = ["s.udp.lost-up = 0", "s.udp.lost-down = 0", "s.udp.loss.up > 0%"];
    let text = two_hosts(
        "both = { delay = \"5ms\" }",
        &format!(
            "expect = {claims:?}\n[[timeline]]\nat = \"10s\"\nlink = \"line\"\nup = {{ loss = \"100%\" }}\n{UDP}\
             [[scenario]]\nname = \"s\"\nloads = [\"load\"]\n[[load]]\nname = \"load\"\nkind = \"udp\"\nfrom = \"a\"\n\
             to = \"b\"\nrate = \"40kbit\"\nsize = 500\n"
        ),
    );
    let (results, _) = TestFolder::new().run_to(1, &text, &[]);
    near(results.number("s", "udp", "loss_ratio"), 0.5, 0.01);
    let row = results.row("s", "udp");
    assert!(row["lost_up"].is_null() && row["lost_down"].is_null(), "{row:#}");
    for claim in claims {
        assert_eq!(verdict(&results, claim), (false, "nothing was measured"), "{claim}");
    }
    near(results.number("s", "load", "lost_up"), 100.0, 1.0);
    near(results.number("s", "load", "lost_down"), 0.0, 0.0);
}
