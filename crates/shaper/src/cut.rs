//! What is written above what there is: a ceiling above its line or its group, which is cut without a refusal, since a list is often older than
//! the line.

use crate::{BothWays, Bounds, PolicyName, TwoWayGroup, TwoWaySubscriber};
use quell_units::Rate;

impl BothWays {
    /// What there is to say of ceilings that nobody can have: of each way a line at most for groups, and one for subscribers.
    pub fn cut(&self, policy: PolicyName) -> Vec<String> {
        if policy != PolicyName::Subscribers {
            return Vec::new();
        }
        let (up, down) = self.rates();
        let up = up.map(|rate| self.cut_one_way("up", rate, |s| s.up, |g| g.up));
        let down = down.map(|rate| self.cut_one_way("down", rate, |s| s.down, |g| g.down));
        up.into_iter().chain(down).flatten().collect()
    }

    fn cut_one_way(
        &self,
        way: &str,
        line: Rate,
        bounds: fn(&TwoWaySubscriber) -> Bounds,
        ceiling: fn(&TwoWayGroup) -> Rate,
    ) -> Vec<String> {
        let the_line = || "the line".to_owned();
        let groups = self.groups.iter().map(|group| {
            let who = format!("group `{}`", group.name);
            (who, ceiling(group), the_line(), line)
        });
        let known: std::collections::HashMap<&str, Rate> =
            self.groups.iter().map(|group| (group.name.as_str(), ceiling(group))).collect();
        let subscribers = self.subscribers.iter().map(|one| {
            let name =
                one.group.as_deref().filter(|name| known.get(name).is_some_and(|r| *r < line));
            let (what, most) = match name {
                Some(name) => (format!("group `{name}`"), known[name]),
                None => (the_line(), line),
            };
            (format!("`{}`", one.name), bounds(one).ceiling, what, most)
        });
        [said(way, groups), said(way, subscribers)].into_iter().flatten().collect()
    }
}

/// The first whose ceiling is above what there is, and how many more.
fn said(way: &str, all: impl Iterator<Item = (String, Rate, String, Rate)>) -> Option<String> {
    let mut above = all.filter(|(.., ceiling, _, most)| ceiling > most);
    let (who, ceiling, what, most) = above.next()?;
    let more = match above.count() {
        0 => String::new(),
        more => format!(", and so it is with {more} more"),
    };
    Some(format!("{way}, {who} can't have {ceiling}: {what} has {most}{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_above_the_line_or_the_group_is_told_once_each_way() {
        let one = |name: &str, up: &str, down: &str, group: &str| {
            format!(
                "[[subscriber]]\nname = \"{name}\"\nprefixes = [\"{name}::/64\"]\n{group}\n\
                 up = {{ floor = \"1Mbit\", ceiling = \"{up}\" }}\ndown = {{ floor = \"1Mbit\", ceiling = \"{down}\" }}\n"
            )
        };
        let north = "group = \"north\"";
        let file = [
            "up = \"20Mbit\"\ndown = \"100Mbit\"\n[[group]]\nname = \"north\"\nup = \"10Mbit\"\ndown = \"200Mbit\"\n",
            &one("a", "20Mbit", "100Mbit", ""),
            &one("b", "20Mbit", "150Mbit", north),
            &one("c", "30Mbit", "150Mbit", ""),
        ];
        let all: BothWays = toml::from_str(&file.concat()).expect("a policy");
        let said = all.cut(PolicyName::Subscribers);
        assert_eq!(
            said,
            [
                "up, `b` can't have 20Mbit: group `north` has 10Mbit, and so it is with 1 more",
                "down, group `north` can't have 200Mbit: the line has 100Mbit",
                "down, `b` can't have 150Mbit: the line has 100Mbit, and so it is with 1 more",
            ]
        );
        assert_eq!(all.cut(PolicyName::Tiers), [""; 0]);
    }
}
