//! Reading a run that is still being written.
//!
//! ```text
//!   writer: frames ──► journal of a cell ─┐
//!           manifest, whole, renamed ─────┼─ inotify ─► readable ──► read: new events, the run so far, how it stands
//!           lock on journal/ ──► a thread that waits for the lock ──► writer is gone
//! ```
//!
//! Nothing is looked at again and again: [`Follower`] is readable when there is something to read. What has no end yet, as the part of a frame at the end
//! of a journal, waits. A folder may be a stranger's: what can't be read is an error, as it is for [`Run::read`].

use crate::cell_data::CellData;
use crate::error::StoreError;
use crate::journal::JournalReader;
use crate::layout::{self, JOURNALS};
use crate::run::{Run, journal_path};
use crate::{journal, stored};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use quell_model::Manifest;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Written,
    /// Its tables are there: nothing more will come.
    Finished,
    /// It has no tables, and the program that wrote it is gone, as after `kill -9`: nothing more will come.
    Left,
}

#[derive(Debug)]
pub struct Follower {
    run: Run,
    on_disk: Manifest,
    standing: Standing,
    cells: Vec<Following>,
    /// Cells by the name of their journal, and by the watch of it.
    by_name: HashMap<String, usize>,
    by_watch: HashMap<WatchDescriptor, usize>,
    told: Epoll,
    watches: Inotify,
    /// Tells that the writer gave up its lock.
    gone: Arc<EventFd>,
    journals: Option<WatchDescriptor>,
    fresh: bool,
}

#[derive(Debug, Default)]
struct Following {
    journal: JournalReader,
    is_there: bool,
    watch: Option<WatchDescriptor>,
}

#[derive(Default)]
struct Changed {
    manifest: bool,
    all: bool,
    cells: BTreeSet<usize>,
}

/// Follows the run in this folder. Nothing of its journals is read before [`Follower::read`].
///
/// # Errors
/// As those of [`Run::read`], and when the system has no watch to give.
pub fn follow(folder: &Path) -> Result<Follower, StoreError> {
    let refused = |error: Errno| StoreError::io("watch", folder)(error.into());
    let watches = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).map_err(refused)?;
    let gone = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
    let gone = Arc::new(gone.map_err(refused)?);
    let told = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(refused)?;
    for source in [watches.as_fd(), gone.as_fd()] {
        told.add(source, EpollEvent::new(EpollFlags::EPOLLIN, 0)).map_err(refused)?;
    }
    // Watched first, read then: what changes in between is told.
    let own = AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_DELETE_SELF;
    watches.add_watch(folder, own | AddWatchFlags::IN_ONLYDIR).map_err(refused)?;
    let inside = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
    let inside = inside | AddWatchFlags::IN_ONLYDIR | AddWatchFlags::IN_DONT_FOLLOW;
    let journals = match watches.add_watch(&folder.join(JOURNALS), inside) {
        Ok(watch) => Some(watch),
        // A run with tables has none.
        Err(Errno::ENOENT | Errno::ENOTDIR) => None,
        Err(error) => return Err(refused(error)),
    };
    let (manifest, _) = stored::read(folder)?;
    let by_name = manifest.cells.iter().enumerate().map(|(n, c)| (layout::journal_name(&c.id), n));
    let follower = Follower {
        by_name: by_name.collect(),
        by_watch: HashMap::new(),
        cells: manifest.cells.iter().map(|_| Following::default()).collect(),
        run: Run {
            folder: folder.to_path_buf(),
            cells: vec![CellData::default(); manifest.cells.len()],
            manifest: manifest.clone(),
        },
        on_disk: manifest,
        standing: Standing::Written,
        told,
        watches,
        journals,
        gone,
        fresh: true,
    };
    follower.wait_for_the_lock();
    Ok(follower)
}

impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.told.0.as_fd()
    }
}

impl Follower {
    /// The run as far as it was read: as [`Run::read`] would give it.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Takes what came since the last time; how the run stands. Once it is finished its tables were read.
    ///
    /// # Errors
    /// As those of [`Run::read`].
    pub fn read(&mut self) -> Result<Standing, StoreError> {
        if self.standing != Standing::Written {
            return Ok(self.standing);
        }
        // What it wrote before it went is there by now.
        let gone = self.gone.read().is_ok();
        let mut changed = self.changed();
        let first = std::mem::take(&mut self.fresh);
        changed.all |= first || gone;
        if changed.manifest || changed.all {
            let (manifest, files) = stored::read(&self.run.folder)?;
            if files.is_some() {
                self.run = Run::read(&self.run.folder)?;
                self.standing = Standing::Finished;
                return Ok(self.standing);
            }
            if !manifest.cells.iter().map(|c| &c.id).eq(self
                .run
                .manifest
                .cells
                .iter()
                .map(|c| &c.id))
            {
                let what = "it has other measurements than when it was begun to be read";
                return Err(StoreError::damaged(self.run.folder.join(stored::FILE), what));
            }
            self.on_disk = manifest;
        }
        let cells = if changed.all { (0..self.cells.len()).collect() } else { changed.cells };
        for index in &cells {
            self.read_cell(*index)?;
        }
        if changed.manifest || !cells.is_empty() {
            self.run.manifest = self.on_disk.clone();
            let journals = self.cells.iter().zip(&self.run.cells);
            let journals =
                journals.map(|(c, data)| c.is_there.then_some((&c.journal.course, data)));
            journal::so_far(&mut self.run.manifest, journals);
        }
        if gone {
            self.standing = Standing::Left;
        }
        Ok(self.standing)
    }

    fn changed(&mut self) -> Changed {
        let mut changed = Changed::default();
        // Nothing to read is the usual end of this; another error would come again at once.
        while let Ok(events) = self.watches.read_events() {
            if events.is_empty() {
                break;
            }
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    changed.all = true;
                } else if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                    // A watch that was given back, or whose file is gone, which was told before.
                } else if let Some(index) = self.by_watch.get(&event.wd) {
                    changed.cells.insert(*index);
                } else if Some(event.wd) == self.journals {
                    let name = event.name.and_then(|name| name.into_string().ok());
                    changed.cells.extend(name.and_then(|name| self.by_name.get(&name)));
                } else {
                    changed.manifest = true;
                }
            }
        }
        changed
    }

    fn read_cell(&mut self, index: usize) -> Result<(), StoreError> {
        let (cell, data) = (&mut self.cells[index], &mut self.run.cells[index]);
        if cell.journal.course.is_over() {
            return Ok(());
        }
        let id = &self.on_disk.cells[index].id;
        let path = journal_path(&self.run.folder, id);
        if cell.watch.is_none() {
            // The file itself: whoever carries the cell out may know it by another name.
            let how = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_DONT_FOLLOW;
            match self.watches.add_watch(&path, how) {
                Ok(watch) => {
                    cell.watch = Some(watch);
                    self.by_watch.insert(watch, index);
                }
                Err(Errno::ENOENT) => return Ok(()),
                Err(error) => return Err(StoreError::io("watch", &path)(error.into())),
            }
        }
        cell.is_there |= cell.journal.read(&path, id, |event| {
            data.take(event);
            Ok(())
        })?;
        data.settle();
        if cell.journal.course.is_over()
            && let Some(watch) = cell.watch
        {
            // Where the file is gone already, so is the watch.
            let _ = self.watches.rm_watch(watch);
            self.by_watch.remove(&watch);
        }
        Ok(())
    }

    /// Begins to wait for the writer to give up its lock, as the kernel makes it do when it is killed. Nothing can end that wait but the lock: the thread
    /// stays until then, or until the program ends.
    fn wait_for_the_lock(&self) {
        let mut open = File::options();
        open.read(true).custom_flags(nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW);
        let gone = Arc::clone(&self.gone);
        let Ok(folder) = open.open(self.run.folder.join(JOURNALS)) else {
            // Without journals nobody is writing.
            return tell(&gone);
        };
        std::thread::spawn(move || {
            let mut folder = folder;
            loop {
                match Flock::lock(folder, FlockArg::LockShared) {
                    Err((same, Errno::EINTR)) => folder = same,
                    // On a file system without locks the end of the run is all that can be waited for.
                    Err(_) => return,
                    Ok(_lock) => return tell(&gone),
                }
            }
        });
    }
}

fn tell(gone: &EventFd) {
    // It has room for more than the one that is told.
    let _ = gone.write(1);
}
