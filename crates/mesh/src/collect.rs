//! `quell mesh collect`: the collector on its broker and its disk.

use crate::collector::{Collector, OutMessage};
use crate::events::MeshFindings;
use crate::folder::{Copier, CopyError, FolderCopy, FolderError, MINUTE_NS, MeshFolder};
use crate::history::MeshHistory;
use crate::messages::{ALL_AGENTS, STATUS};
use crate::page;
use quell_bus::{Bus, BusConfig, BusEvent};
use quell_metrics::{MetricsEndpoint, MetricsPage};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, Bell, readable, wait};
use quell_sys::wall::realtime_ns;
use quell_units::Span;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of all plans together: a thousand agents with a hundred probes have 20 MB.
const MOST_PLANS: u64 = 256 << 20;
/// How often what is stored becomes tables.
const SEAL_NS: u64 = 300_000_000_000;
/// How often metrics are made anew.
const METRICS_NS: u64 = 1_000_000_000;
/// What the page shows.
const DAY_NS: i64 = 288 * SEAL_NS as i64;

#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    System(#[from] SysError),
}

pub struct CollectConfig {
    pub bus: BusConfig,
    /// Where all is kept; also the plans, should the broker lose them.
    pub folder: PathBuf,
    /// Where the folder is a second time; then nothing is acknowledged that is not there too. An empty folder is filled from it.
    pub copy: Option<String>,
    /// How long records may wait until many are synced at once.
    pub sync_each: Span,
    /// Where a page and metrics are served.
    pub web: Option<MetricsEndpoint>,
}

/// Until the bell rings. `tell` gets a line for a person when something changed.
pub fn run(
    config: CollectConfig,
    stop: &Bell,
    tell: &mut dyn FnMut(&str),
) -> Result<(), CollectError> {
    let mut bus = config.bus;
    bus.subscriptions.subjects = vec![ALL_AGENTS.into(), STATUS.into()];
    bus.subscriptions.keys = true;
    let copy = config.copy.as_deref().map(|to| FolderCopy::open(&config.folder, to)).transpose()?;
    let folder = MeshFolder::open(&config.folder)?;
    let copied = Arc::new(Bell::new()?);
    // What a collector without a copy acknowledged is to be there too.
    let copier = copy.map(|copy| copy.in_thread(&copied)).transpose()?;
    folder.damage().iter().for_each(|damage| tell(damage));
    let mut collector = Collector::new(folder);
    let plans = config.folder.join("plans.json");
    let kept = quell_sys::input::bytes(&plans, MOST_PLANS).ok();
    let kept: Option<BTreeMap<String, String>> =
        kept.and_then(|text| serde_json::from_slice(&text).ok());
    collector.remember(kept.unwrap_or_default());
    let metrics = Mutex::new(MetricsPage::default());
    let mut hub = Hub {
        collector,
        bus: Bus::start(bus)?,
        copier,
        copied,
        under_way: BTreeMap::new(),
        changed: Vec::new(),
        plans,
        lost_keys: VecDeque::new(),
        sync_ns: config.sync_each.nanos(),
        due_ns: None,
        seal_ns: monotonic_ns().saturating_add(SEAL_NS),
        said: String::new(),
        metrics: config.web.is_some().then_some(&metrics),
        metrics_ns: 0,
        tell,
    };
    let over = &Bell::new()?;
    std::thread::scope(|scope| {
        if let Some(endpoint) = &config.web {
            // A day of a large mesh is not read at each look.
            let (folder, kept) = (&config.folder, RefCell::new((0, String::new())));
            let html = move || {
                let mut kept = kept.borrow_mut();
                if monotonic_ns() >= kept.0 {
                    let page = collector_page(folder);
                    *kept = (monotonic_ns().saturating_add(MINUTE_NS as u64), page);
                }
                kept.1.clone()
            };
            let metrics = || metrics.lock().unwrap_or_else(PoisonError::into_inner).clone();
            scope.spawn(move || endpoint.serve_pages(over, &metrics, Some(&html)));
        }
        let ended = hub.until(stop);
        over.ring();
        ended
    })?;
    hub.store();
    if hub.copier.is_none() {
        hub.collector.seal();
    }
    Ok(())
}

/// What the folder's tables hold: they are brought up to date each five minutes.
fn collector_page(folder: &Path) -> String {
    match MeshHistory::latest(folder, DAY_NS) {
        Ok(Some(mesh)) => page::page(&mesh, &MeshFindings::of(&mesh), true),
        Ok(None) => page::notice(
            "Nothing is stored yet: what agents measured is shown from five minutes on.",
        ),
        Err(why) => page::notice(&why.to_string()),
    }
}

struct Hub<'a> {
    collector: Collector,
    bus: Bus,
    copier: Option<Copier>,
    /// Rings when the copier is done.
    copied: Arc<Bell>,
    /// What is safe then, and the tables that changed since.
    under_way: BTreeMap<String, u64>,
    changed: Vec<PathBuf>,
    plans: PathBuf,
    /// What the broker lost and is to get again, in this order.
    lost_keys: VecDeque<(String, Vec<u8>)>,
    sync_ns: u64,
    /// When what came is to be synced; none where all is.
    due_ns: Option<u64>,
    /// When what is stored is to be brought into tables.
    seal_ns: u64,
    said: String,
    /// What a scraper gets, and when it is made anew.
    metrics: Option<&'a Mutex<MetricsPage>>,
    metrics_ns: u64,
    tell: &'a mut dyn FnMut(&str),
}

impl Hub<'_> {
    fn until(&mut self, stop: &Bell) -> Result<(), SysError> {
        let mut alarm = Alarm::new()?;
        while !stop.rings() {
            while let Some(event) = self.bus.next_event() {
                self.event(event);
                self.do_what_is_due();
            }
            self.keep_plans();
            self.do_what_is_due();
            let seal_ns = Some(self.seal_ns).filter(|_| !self.copies());
            let metrics_ns = self.metrics.map(|_| self.metrics_ns);
            alarm.set([self.due_ns, seal_ns, metrics_ns].into_iter().flatten().min())?;
            wait(&mut [
                readable(stop),
                readable(&self.bus),
                readable(&alarm),
                readable(&*self.copied),
            ])?;
        }
        Ok(())
    }

    fn do_what_is_due(&mut self) {
        if self.copied.silence() {
            self.copy_ended();
        }
        let now_ns = monotonic_ns();
        if self.due_ns.is_some_and(|due_ns| now_ns >= due_ns) {
            self.store();
        }
        if let Some(metrics) = self.metrics.filter(|_| now_ns >= self.metrics_ns) {
            // Also where nobody says anything any more.
            *metrics.lock().unwrap_or_else(PoisonError::into_inner) =
                self.collector.metrics(now_ns);
            self.metrics_ns = now_ns.saturating_add(METRICS_NS);
        }
        // What is copied stays as it is.
        if now_ns >= self.seal_ns && !self.copies() {
            self.changed.extend(self.collector.seal());
            self.seal_ns = now_ns.saturating_add(SEAL_NS);
        }
    }

    fn event(&mut self, event: BusEvent) {
        match event {
            BusEvent::Connected { version } => {
                self.collector.connected();
                self.lost_keys.clear();
                self.say(&format!("connected to nats-server {version}"));
            }
            BusEvent::Lost { why } | BusEvent::Refused { why } => self.say(&why),
            BusEvent::Message { subject, reply, payload } => match reply {
                Some(reply) if subject == STATUS => {
                    let status = self.collector.status(monotonic_ns());
                    self.bus.publish(&reply, serde_json::to_vec(&status).unwrap_or_default());
                }
                _ => self.heard(&subject, &payload),
            },
            BusEvent::Key { key, value, revision: _ } => {
                self.collector.key(&key, value.as_deref());
            }
            BusEvent::AllKeys => {
                self.lost_keys = self.collector.all_keys();
                self.write_lost_key();
            }
            BusEvent::Written { result: Ok(_), .. } => self.write_lost_key(),
            BusEvent::Written { key, result: Err(why) } => {
                // The next connection tries again.
                self.lost_keys.clear();
                self.say(&format!(
                    "the plan of `{key}` could not be given back to the broker: {why}"
                ));
            }
            BusEvent::Answer { .. } => {}
        }
    }

    /// One after the other: an order that finds too many before it is none.
    fn write_lost_key(&mut self) {
        if let Some((key, text)) = self.lost_keys.front()
            && self.bus.put(key, Some(text.clone()), 0)
        {
            self.lost_keys.pop_front();
        }
    }

    fn heard(&mut self, subject: &str, payload: &[u8]) {
        let now_ns = monotonic_ns();
        match self.collector.heard(subject, payload, now_ns, realtime_ns() as i64) {
            Ok(Some(OutMessage { subject, payload })) => drop(self.bus.publish(&subject, payload)),
            Ok(None) => {}
            Err(why) => self.say(&why),
        }
        self.say_trouble();
        self.store_later();
    }

    fn store_later(&mut self) {
        if self.due_ns.is_none() && self.collector.is_behind() && !self.copies() {
            self.due_ns = Some(monotonic_ns().saturating_add(self.sync_ns));
        }
    }

    fn copies(&self) -> bool {
        self.copier.as_ref().is_some_and(Copier::is_busy)
    }

    fn copy_ended(&mut self) {
        match self.copier.as_mut().and_then(Copier::ended) {
            Some(Ok(())) => self.acknowledge(),
            Some(Err(why)) => {
                self.collector.is_in_trouble(why.to_string());
                self.say(&why.to_string());
            }
            None => {}
        }
        self.store_later();
    }

    fn acknowledge(&mut self) {
        let safe = std::mem::take(&mut self.under_way);
        for OutMessage { subject, payload } in self.collector.acknowledge(safe) {
            self.bus.publish(&subject, payload);
        }
    }

    fn store(&mut self) {
        self.due_ns = None;
        if let Some(synced) = self.collector.sync() {
            self.under_way = synced;
            match &mut self.copier {
                Some(copier) => copier.bring(std::mem::take(&mut self.changed)),
                None => self.acknowledge(),
            }
        }
        self.say_trouble();
    }

    fn say_trouble(&mut self) {
        if let Some(why) = self.collector.trouble().map(str::to_owned) {
            self.say(&why);
        }
    }

    /// Whole or not at all: a broker that lost its disk gets them from here.
    fn keep_plans(&mut self) {
        let Some(plans) = self.collector.changed_plans() else { return };
        let text = serde_json::to_vec(&plans).unwrap_or_default();
        if let Err(why) = quell_store::write_output(&self.plans, &text) {
            self.say(&why.to_string());
        }
    }

    fn say(&mut self, what: &str) {
        if self.said != what {
            self.said = what.into();
            (self.tell)(what);
        }
    }
}
