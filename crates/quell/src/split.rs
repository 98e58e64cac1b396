//! `quell run --split N --for PROGRAM`: what makes another program run an experiment in parts. Nothing is run, and nothing of a scheduler is here.
//!
//! ```text
//!   the command as it was typed, without --split, --for, --out ──► `… --part I/N --out parts`, in that program's words
//! ```
//!
//! A part that is there is not measured again, so that each of these may start it as often as it likes.

use crate::failure::Failure;
use crate::options::choice;
use clap::builder::TypedValueParser;
use std::path::Path;

/// Who starts the parts.
#[derive(Debug, Clone, Copy)]
pub enum Scheduler {
    Parallel,
    Slurm,
    Kubernetes,
    Make,
}

pub fn schedulers() -> impl TypedValueParser<Value = Scheduler> {
    choice([
        ("parallel", "GNU parallel: a line for a shell", Scheduler::Parallel),
        ("slurm", "Slurm: a script for sbatch", Scheduler::Slurm),
        ("k8s", "Kubernetes: an indexed job", Scheduler::Kubernetes),
        ("make", "Make: a Makefile, for this machine", Scheduler::Make),
    ])
}

/// The recipe for so many parts of so many measurements; `typed` are the words behind `quell`.
pub fn recipe(
    scheduler: Scheduler,
    parts: u32,
    measurements: usize,
    typed: &[String],
    out: &Path,
) -> Result<String, Failure> {
    let out = if out == Path::new("runs") { "parts".into() } else { out.to_string_lossy() };
    let joined = |words: &[&str]| {
        let quoted = shlex::try_join(words.iter().copied());
        quoted.map_err(|e| Failure::usage(format!("the command can't be printed: {e}")))
    };
    let run = format!("quell {}", joined(&own_words(typed))?);
    let out = joined(&[&*out])?;
    let about = format!(
        "# {measurements} measurements in {parts} parts. Start it again after a failure: parts that are there stay."
    );
    let gather = format!("quell data gather {out}/* -o whole");
    Ok(match scheduler {
        Scheduler::Parallel => format!(
            "#!/bin/sh\n{about}\n# machines.txt: a name for ssh a line, `:` is this machine; all see this folder. A part takes all CPUs of its machine.\n\
             seq {parts} | parallel --sshloginfile machines.txt --workdir . --jobs 1 --retries 3 --joblog parts.log \\\n  \
             {} && {gather}\n",
            // It is read twice: by this shell, and by that which parallel starts.
            joined(&[&format!("{run} --part {{}}/{parts} --out {out}")])?
        ),
        Scheduler::Slurm => format!(
            "#!/bin/sh\n#SBATCH --job-name=quell\n#SBATCH --array=1-{parts}\n#SBATCH --cpus-per-task=1\n#SBATCH --requeue\n\
             #SBATCH --output=part-%a.log\n#SBATCH --open-mode=append\n{about}\n# sbatch THIS; then: {gather}\n\
             exec {run} --jobs \"$SLURM_CPUS_PER_TASK\" --part \"$SLURM_ARRAY_TASK_ID/{parts}\" --out {out}\n"
        ),
        Scheduler::Kubernetes => {
            let command = format!(
                "exec {run} --jobs 1 --part $((JOB_COMPLETION_INDEX + 1))/{parts} --out {out}"
            );
            format!(
                "{about}\n# Fill in an image with quell and its kernel (quell lab kernel import), and a claim that holds the experiment's file.\n\
                 # kubectl apply -f THIS; then, in that folder: {gather}\n\
                 apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: quell\nspec:\n  completionMode: Indexed\n  completions: {parts}\n  \
                 parallelism: {parts}\n  backoffLimit: {parts}\n  template:\n    spec:\n      restartPolicy: OnFailure\n      containers:\n      \
                 - name: part\n        image: IMAGE\n        workingDir: /runs\n        command: [sh, -c, {}]\n        \
                 resources: {{limits: {{cpu: 1}}}}\n        volumeMounts: [{{name: runs, mountPath: /runs}}]\n      \
                 volumes: [{{name: runs, persistentVolumeClaim: {{claimName: CLAIM}}}}]\n",
                serde_json::json!(command)
            )
        }
        Scheduler::Make => format!(
            "{about}\n# make -k -f THIS\nPARTS := $(addprefix part-,$(shell seq {parts}))\n.PHONY: $(PARTS)\n.NOTPARALLEL:\n\
             whole: $(PARTS)\n\t{gather}\n$(PARTS): part-%:\n\t{} --part $*/{parts} --out {out}\n",
            run.replace('$', "$$")
        ),
    })
}

/// What was typed, without what is this recipe's.
fn own_words(typed: &[String]) -> Vec<&str> {
    const OURS: [&str; 3] = ["--split", "--for", "--out"];
    let mut words = Vec::new();
    let mut typed = typed.iter().map(String::as_str);
    while let Some(word) = typed.next() {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        match OURS.contains(&name) {
            false => words.push(word),
            true if name == word => drop(typed.next()),
            true => {}
        }
    }
    words
}
