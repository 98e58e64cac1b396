//! `quell twin from` tells a line from runs that measured something else: what they say, and no more.

use super::support::{TestFolder, two_hosts};
use quell_series::MeasuredLine;
use quell_series::measured_line::{Estimate, Property};
use quell_units::Buffer;
use std::fmt::Debug;

/// Whether the truth is between the bounds.
fn holds<T: Copy + Debug>(property: &Option<Property<T>>, number: fn(T) -> f64, truth: f64) {
    let Some(Property::Measured(Estimate { low: Some(low), high: Some(high), .. })) = property
    else {
        panic!("{property:?} has no bounds")
    };
    let (low, high) = (number(*low), number(*high));
    assert!(low <= truth && truth <= high && high < 2.5 * truth + 0.02, "{property:?}");
}

#[test]
fn runs_of_pings_and_flows_tell_rate_delay_loss_and_buffer_within_their_bounds() {
    let dir = TestFolder::new();
    let load = |way| {
        format!(
            "[[load]]\nname = \"{way}\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\ndirection = \"{way}\"\nconnections = 4\n\
             [[scenario]]\nname = \"{way}\"\nloads = [\"{way}\"]\n"
        )
    };
    let run = |probe: &str| {
        let rest = format!(
            "[[scenario]]\nname = \"idle\"\n{}{}[[probe]]\nname = \"ping\"\n{probe}\nfrom = \"a\"\nto = \"b\"\n",
            load("up"),
            load("down")
        );
        let line = "up = { rate = \"4Mbit\", delay = \"10ms\", buffer = \"80p\", loss = \"0.2%\" }\n\
                    down = { rate = \"20Mbit\", delay = \"15ms\", buffer = \"256kB\" }";
        dir.run(&two_hosts(line, &rest), &[]);
        let told = dir.quell(&["twin", "from", "story", "--json"]);
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        serde_json::from_slice::<MeasuredLine>(&told.stdout).expect("a line")
    };
    let line = run("kind = \"udp\"\nrate = \"40kbit\"\nsize = \"100B\"");
    let buffer = |buffer| match buffer {
        Buffer::Bytes(bytes) => bytes.get() as f64,
        Buffer::Packets(_) => panic!("its unit is unknown"),
    };
    for (way, rate, delay, stands, loss) in
        [(&line.up, 4e6, 10.0, 80.0 * 1514.0, 0.002), (&line.down, 2e7, 15.0, 256e3, 0.0)]
    {
        holds(&way.rate, |rate| rate.bps() as f64, rate);
        holds(&way.delay, |delay| delay.as_millis_f64(), delay);
        holds(&way.buffer, buffer, stands);
        holds(&way.loss, |loss| loss.as_f64(), loss);
        assert!(matches!(&way.queue, Some(Property::Unknown(why)) if why.contains("queue drops")));
    }
    // Those who ask ICMP learn the round trip alone.
    let line = run("kind = \"ping\"\ninterval = \"50ms\"");
    for way in [&line.up, &line.down] {
        let Some(Property::Measured(delay)) = &way.delay else { panic!("{way:?}") };
        assert!(delay.how.starts_with("half of the quickest round trip"), "{delay:?}");
    }
}
