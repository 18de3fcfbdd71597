//! The steps of a node: its planner's commands, its registrations and heartbeats, its claims and their bodies.

use super::*;

impl Sim {
    pub(super) fn run(&mut self, at: usize) {
        let leads = self.leader == Some(at);
        let online = self.nodes[at].offline_until <= self.now;
        let local = UtcTime::from_millis(self.now.as_millis().saturating_add_signed(self.nodes[at].ahead));
        if self.nodes[at].planner.is_none() {
            let mut planner = Planner::new(ClaimTerms {
                group: self.group.clone(),
                node: String::new(),
                lease: LEASE,
                history: u32::MAX,
                draw: ClaimId::random,
            });
            for (name, job) in &self.jobs {
                planner.add(local, name.clone(), job.schedule.clone(), job.terms.clone());
            }
            self.nodes[at].planner = Some(planner);
            self.nodes[at].beat = self.now;
        }
        let mut out = Vec::new();
        if leads && online && !self.nodes[at].leads {
            self.nodes[at].leads = true;
            self.nodes[at].planner.iter_mut().for_each(Planner::elected);
            self.nodes[at].registering = self.jobs.keys().cloned().collect();
        }
        if online {
            self.register(at, local);
            self.beat(at, &mut out);
            self.end_bodies(at);
        }
        self.ask(at, local, online, &mut out);
        let node = &mut self.nodes[at];
        let taken = node.bodies.len() + node.asking.len();
        let room = node.max_running.saturating_sub(u32::try_from(taken).unwrap());
        let planner = node.planner.as_mut().expect("the node is up");
        planner.tick(local, room, &mut Budget::default(), &mut out);
        self.execute(at, out);
    }

    fn execute(&mut self, at: usize, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Claim(due) => {
                    let (since, again) = (self.now, self.now);
                    self.nodes[at].asking.push(Asking { due, since, again, reply: None });
                }
                Command::CancelRunning(job) => {
                    let of_job = self.nodes[at].bodies.iter_mut().filter(|body| body.job == job);
                    of_job.for_each(|body| body.ends = self.now);
                }
                Command::Register(job) => drop(self.nodes[at].registering.insert(job)),
                Command::Skipped { job, reason, count } => {
                    let is_elsewhere = [SkipReason::DecidedElsewhere, SkipReason::Expired].contains(&reason);
                    if !is_elsewhere {
                        self.books.get_mut(&job).unwrap().reported += count;
                    }
                }
                Command::ReadControls | Command::CloseBackfill { .. } => {}
            }
        }
    }

    fn register(&mut self, at: usize, local: UtcTime) {
        let node = &mut self.nodes[at];
        for name in std::mem::take(&mut node.registering) {
            if self.random.chance(0.3) {
                node.registering.insert(name);
                continue;
            }
            let planner = node.planner.as_mut().expect("the node is up");
            let registration = planner.registration(&name).unwrap();
            let registered = self.ledger.register(self.now, std::slice::from_ref(&registration));
            planner.registered(&registration, registered[0].watermark, local);
        }
    }

    fn beat(&mut self, at: usize, out: &mut Vec<Command>) {
        if self.now < self.nodes[at].beat {
            return;
        }
        self.nodes[at].beat = self.now + ms(1_000);
        let has_room =
            |node: &&SimNode| node.down_until <= self.now && node.bodies.len() < node.max_running as usize;
        let this = self.nodes[at].id;
        let others =
            self.nodes.iter().filter(has_room).map(|node| node.id).filter(|id| *id != this).collect();
        let node = &mut self.nodes[at];
        let planner = node.planner.as_mut().expect("the node is up");
        let asked = planner.undecided(self.now);
        let watermarks = self.ledger.watermarks(&asked);
        planner.peers_read(Peers { this, others, read_at: self.now });
        for (registration, watermark) in asked.iter().zip(watermarks) {
            planner.observed(registration, watermark, self.now, out);
        }
        if let FleetControls::Changed { triggers, .. } = self.ledger.controls(u64::MAX) {
            for trigger in triggers {
                planner.triggered(&trigger.job, RunId::Triggered(trigger.id));
            }
        }
        let leads = node.leads;
        let bodies: Vec<_> =
            node.bodies.iter().map(|body| (body.job.clone(), body.run, body.claim)).collect();
        for (job, run, claim) in bodies {
            let renewal = self.ledger.renew(self.now, &RenewRun { job, run, claim, lease: LEASE });
            let of_claim = self.nodes[at].bodies.iter_mut().filter(|body| body.claim == claim);
            match renewal {
                RunRenewal::Renewed => {}
                _ => of_claim.for_each(|body| body.ends = self.now),
            }
        }
        if leads {
            for open in self.ledger.open_runs(self.now) {
                if open.state == RunState::Orphaned {
                    self.end(&open.job, open.run, open.claim);
                }
            }
        }
    }

    fn end_bodies(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let (ended, bodies) =
            std::mem::take(&mut node.bodies).into_iter().partition(|body| body.ends <= self.now);
        node.bodies = bodies;
        let ended: Vec<Body> = ended;
        for Body { job, run, claim, .. } in ended {
            self.end(&job, run, claim);
            self.nodes[at].planner.iter_mut().for_each(|planner| planner.run_ended(&job));
        }
    }

    fn end(&mut self, job: &LockName, run: RunId, claim: ClaimId) {
        let job = JobId { group: self.group.clone(), name: job.clone() };
        let (outcome, detail, then) = (RunOutcome::Succeeded, String::new(), AfterAttempt::Finish);
        let request = EndRequest { job, run, claim, outcome, detail, then, history: u32::MAX };
        self.ledger.end(self.now, &request);
    }

    /// Sends the claims of a node, repeats them, and delivers the replies.
    fn ask(&mut self, at: usize, local: UtcTime, online: bool, out: &mut Vec<Command>) {
        for mut asking in std::mem::take(&mut self.nodes[at].asking) {
            if online && asking.reply.is_none() && asking.again <= self.now {
                let fate = self.random.below(20);
                let wait = ms(self.random.below(300));
                match fate {
                    0 => self.late.push((
                        self.now + ms(self.random.below(4_000)),
                        ClaimRequest::clone(&asking.due.request),
                    )),
                    1 => drop(self.decide(&asking.due.request)),
                    2 => {}
                    _ => asking.reply = Some((self.now + wait, self.decide(&asking.due.request))),
                }
                asking.due.in_doubt |= fate < 3;
                asking.again = self.now + ms(1_000) + wait;
            }
            let outcome = match asking.reply.take() {
                Some((arrives, reply)) if arrives <= self.now => ClaimOutcome::Answered(reply),
                None if asking.since + LEASE < self.now => {
                    asking.due.in_doubt = true;
                    ClaimOutcome::Failed
                }
                reply => {
                    self.nodes[at].asking.push(Asking { reply, ..asking });
                    continue;
                }
            };
            let due = asking.due;
            let granted = matches!(outcome, ClaimOutcome::Answered(ClaimReply::Claimed { .. }));
            let planner = self.nodes[at].planner.as_mut().expect("the node is up");
            planner.claim_answered(local, &due, outcome, out);
            if granted {
                let ClaimRequest { job, run, claim, .. } = *due.request;
                let ends = self.now + self.jobs[&job.name].body;
                self.nodes[at].bodies.push(Body { job: job.name, run, claim, ends });
            }
        }
    }
}
