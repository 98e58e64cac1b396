//! Page loads and the site's server as tasks of an experiment.

use crate::PageError;
use crate::browser::{Browser, BrowserOptions};
use crate::identity::pin;
use crate::load::PageRequest;
use crate::site;
use quell_model::page::{HttpVersion, PageEnd, PageLoad};
use quell_model::task::PageClient;
use quell_model::{Event, Fact, Subject, Told, When};
use quell_sys::clock::{is_virtual, monotonic_ns};
use quell_sys::pace::Window;
use quell_sys::wait::{Alarm, Bell, readable, wait};
use std::collections::BTreeMap;

pub struct BrowserTask {
    client: PageClient,
    browser: Browser,
}

impl BrowserTask {
    /// Starts the browser: what that takes is no part of a load.
    pub fn prepare(client: &PageClient) -> Result<Self, PageError> {
        let address = match client.to.ip() {
            std::net::IpAddr::V4(v4) => v4.to_string(),
            std::net::IpAddr::V6(v6) => format!("[{v6}]"),
        };
        let options = BrowserOptions {
            names: BTreeMap::from([(format!("*.{}", site::DOMAIN), address)]),
            pinned: vec![pin(client.seed)],
            is_virtual: is_virtual(),
            // The server offers one version alone: the browser is told nothing of it, so that its first words stay what they were.
            http: (client.http != HttpVersion::One).then_some(client.http),
            ..BrowserOptions::default()
        };
        let browser = Browser::start(&options, &Bell::new()?)?;
        Ok(Self { client: client.clone(), browser })
    }

    /// Loads the page from the window's start to its end, or as often as it was told, one load after the other.
    pub fn run(
        mut self,
        window: &Window,
        stop: &Bell,
        emit: &(dyn Fn(Event) + Sync),
    ) -> Result<(), PageError> {
        let mut alarm = Alarm::new()?;
        alarm.set(Some(window.start_ns))?;
        wait(&mut [readable(&alarm), readable(stop)])?;
        let url = format!("https://{}:{}/", site::HOSTS[0], self.client.to.port());
        let mut kept = None;
        let mut number = 0;
        while number < self.client.loads && monotonic_ns() < window.end_ns() && !stop.rings() {
            let warm = kept.is_some();
            let context = match kept.take() {
                Some(context) => context,
                None => self.browser.context(stop)?,
            };
            let until_ns = monotonic_ns().saturating_add(self.client.patience.nanos());
            let wanted = PageRequest {
                url: &url,
                number,
                warm,
                deadline_ns: until_ns.min(window.end_ns()),
                origin_ns: window.origin_ns,
            };
            let load = self.browser.load(&context, wanted, stop);
            let mut load = match load {
                Err(PageError::Stopped) => break,
                load => load?,
            };
            if load.end == PageEnd::TimedOut && until_ns > window.end_ns() {
                load.end = PageEnd::Unfinished;
            }
            // The first of a warm series fills the cache.
            if warm || !self.client.warm {
                number += 1;
                emit(told(&self.client.stream, &load));
            }
            if self.client.warm
                && (warm || load.end == PageEnd::Loaded)
                && self.browser.keeps(&context)
            {
                kept = Some(context);
            }
        }
        Ok(())
    }
}

fn told(stream: &str, load: &PageLoad) -> Event {
    let value = serde_json::to_string(load).expect("a load is JSON: numbers, texts and lists");
    Fact::new(When::During, Subject::stream(stream, Told::PageLoad), value).into()
}
