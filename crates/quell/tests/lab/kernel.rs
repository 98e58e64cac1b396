//! What the lab's kernel can do: every queue, class, filter and action that Quell knows is put in place there and read back.

use super::support::{QUELL, TestFolder};
use std::path::Path;

#[test]
fn every_golden_tree_is_taken_by_the_kernel_and_read_back_as_it_was_wanted() {
    let example = Path::new(QUELL).with_file_name("examples").join("tc_readback");
    assert!(
        example.exists(),
        "{} is built with the tests of the whole workspace: cargo test --workspace",
        example.display()
    );
    let dir = TestFolder::new();
    let file = dir
        .file("t.toml", "hosts = [\"a\", \"b\"]\n[[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\n");
    let output = dir.quell(&[
        "lab",
        "exec",
        &file.to_string_lossy(),
        "a",
        "--",
        &example.to_string_lossy(),
        "--all",
        "l",
    ]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(" 0 not, 0 lacking"), "{said}");
    let good = said.lines().filter(|l| l.starts_with("ok ")).count();
    assert!(good >= 50, "{good} trees were tried");
}
