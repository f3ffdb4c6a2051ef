-- Times are microseconds since 1970 UTC, in both databases: what one keeps, the other keeps, and
-- `preloop copy` moves rows as they are. Optional times are NULL.

-- Deliveries. seq is the order of receipt. What is listed, claimed and pruned never touches a payload page.
CREATE TABLE deliveries (
  seq           INTEGER PRIMARY KEY,
  source        TEXT    NOT NULL,
  source_name   TEXT    NOT NULL,
  guid          TEXT    NOT NULL,
  event         TEXT    NOT NULL,
  action        TEXT    NOT NULL DEFAULT '',
  repo          TEXT    NOT NULL DEFAULT '',
  repo_id       INTEGER NOT NULL DEFAULT 0,
  subject       TEXT    NOT NULL DEFAULT '',
  subject_num   INTEGER NOT NULL DEFAULT 0,
  sender        TEXT    NOT NULL DEFAULT '',
  sender_bot    INTEGER NOT NULL DEFAULT 0,
  org           TEXT    NOT NULL DEFAULT '',
  installation  INTEGER NOT NULL DEFAULT 0,
  headers       TEXT    NOT NULL,              -- JSON object
  size          INTEGER NOT NULL,
  state         TEXT    NOT NULL DEFAULT 'received',
  attempts      INTEGER NOT NULL DEFAULT 0,
  outages       INTEGER NOT NULL DEFAULT 0,
  generation    INTEGER NOT NULL DEFAULT 0,
  received_at   INTEGER NOT NULL,
  queued_at     INTEGER NOT NULL,
  due_at        INTEGER,                       -- claimable from here on: next attempt while received, end of the lease while processing, NULL when terminal
  started_at    INTEGER,                       -- of the attempt under way
  finished_at   INTEGER,
  node          TEXT    NOT NULL DEFAULT '',
  token         INTEGER NOT NULL DEFAULT 0,    -- rises with every claim
  last_error    TEXT    NOT NULL DEFAULT '',
  forced        INTEGER NOT NULL DEFAULT 0,
  only_triggers TEXT    NOT NULL DEFAULT '',   -- JSON array, or empty for all
  history       TEXT    NOT NULL DEFAULT '',   -- JSON array of attempts
  decisions     TEXT    NOT NULL DEFAULT ''    -- JSON array
) STRICT;
CREATE UNIQUE INDEX deliveries_key ON deliveries (guid, source);
CREATE INDEX deliveries_due ON deliveries (seq, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_failed ON deliveries (seq) WHERE state = 'failed';
-- Only what is finished: GitHub does not wait for these, and what is not finished is few.
CREATE INDEX deliveries_repo ON deliveries (repo COLLATE NOCASE, seq) WHERE due_at IS NULL;
CREATE INDEX deliveries_event ON deliveries (event, seq) WHERE due_at IS NULL;
CREATE INDEX deliveries_finished ON deliveries (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE payloads (
  seq   INTEGER PRIMARY KEY,
  codec INTEGER NOT NULL,                      -- queue/codec
  body  BLOB    NOT NULL
) STRICT;

-- Runs. id is the number in this store, run_id the UUID that people and targets see.
CREATE TABLE runs (
  id              INTEGER PRIMARY KEY,
  run_id          TEXT    NOT NULL,
  trigger         TEXT    NOT NULL,
  delivery_seq    INTEGER NOT NULL,
  guid            TEXT    NOT NULL,
  source          TEXT    NOT NULL,
  source_name     TEXT    NOT NULL,
  generation      INTEGER NOT NULL,
  kind            TEXT    NOT NULL,
  state           TEXT    NOT NULL,
  reason          TEXT    NOT NULL DEFAULT '',
  event           TEXT    NOT NULL,
  action          TEXT    NOT NULL DEFAULT '',
  repo            TEXT    NOT NULL DEFAULT '',
  repo_id         INTEGER NOT NULL DEFAULT 0,
  subject         TEXT    NOT NULL DEFAULT '',
  subject_num     INTEGER NOT NULL DEFAULT 0,
  subject_key     TEXT    NOT NULL DEFAULT '',
  sender          TEXT    NOT NULL DEFAULT '',
  sender_bot      INTEGER NOT NULL DEFAULT 0,
  org             TEXT    NOT NULL DEFAULT '',
  installation    INTEGER NOT NULL DEFAULT 0,
  serialize_key   TEXT    NOT NULL DEFAULT '',
  follows         INTEGER NOT NULL DEFAULT 0,  -- its trigger had follow_up on when it was admitted
  idempotent      INTEGER NOT NULL DEFAULT 0,
  uncertain_after INTEGER NOT NULL,            -- microseconds
  session         TEXT    NOT NULL DEFAULT '',
  attempts        INTEGER NOT NULL DEFAULT 0,
  outages         INTEGER NOT NULL DEFAULT 0,
  tries           INTEGER NOT NULL DEFAULT 0,  -- claims ever made of it in this admission: 0 means that it can still expire
  probes          INTEGER NOT NULL DEFAULT 0,  -- unanswered probes while uncertain
  created_at      INTEGER NOT NULL,
  due_at          INTEGER,                     -- waiting, routing: next attempt. uncertain: next probe. NULL: at once
  expires_at      INTEGER,                     -- waiting for its first attempt
  deadline_at     INTEGER,                     -- accepted: becomes uncertain. uncertain: becomes failed
  started_at      INTEGER,
  attempt_at      INTEGER,                     -- start of the attempt under way
  finished_at     INTEGER,
  node            TEXT    NOT NULL DEFAULT '',
  token           INTEGER NOT NULL DEFAULT 0,
  lease_until     INTEGER,                     -- NULL: nobody holds it
  cancel_asked    INTEGER NOT NULL DEFAULT 0,
  exit_code       INTEGER,
  http_status     INTEGER,
  error           TEXT    NOT NULL DEFAULT '',
  history         TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX runs_run_id ON runs (run_id);
CREATE UNIQUE INDEX runs_once ON runs (delivery_seq, trigger, generation);
CREATE INDEX runs_guid ON runs (guid, trigger);
CREATE INDEX runs_live ON runs (trigger, state, delivery_seq, generation) WHERE state IN ('waiting', 'running', 'routing', 'uncertain');
CREATE INDEX runs_subject ON runs (trigger, subject_key, created_at) WHERE subject_key <> '';
CREATE INDEX runs_serial ON runs (trigger, serialize_key, state, delivery_seq, generation) WHERE serialize_key <> '' AND state IN ('waiting', 'running');
CREATE INDEX runs_follow ON runs (trigger, subject_key, state, delivery_seq, generation) WHERE follows = 1 AND state IN ('waiting', 'running', 'routing');
CREATE INDEX runs_lease ON runs (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX runs_deadline ON runs (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX runs_expires ON runs (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX runs_trigger ON runs (trigger, id);
CREATE INDEX runs_dropped ON runs (finished_at) WHERE state = 'dropped';

CREATE TABLE run_outputs (
  id     INTEGER PRIMARY KEY,
  output BLOB NOT NULL
) STRICT;

CREATE TABLE sessions (
  id          INTEGER PRIMARY KEY,
  trigger     TEXT    NOT NULL,
  subject_key TEXT    NOT NULL,
  subject     TEXT    NOT NULL,
  run_id      TEXT    NOT NULL,                -- the run that opened it
  session     TEXT    NOT NULL,
  state       TEXT    NOT NULL,                -- live, sleeping, ended
  reported    INTEGER NOT NULL DEFAULT 0,
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER                          -- while sleeping
) STRICT;
CREATE UNIQUE INDEX sessions_open ON sessions (trigger, subject_key) WHERE state <> 'ended';
CREATE INDEX sessions_run ON sessions (run_id);

-- A row a trigger: what admission and dispatch lock on Postgres.
CREATE TABLE triggers (
  name         TEXT PRIMARY KEY,
  paused_since INTEGER
) STRICT;
CREATE TABLE pauses (
  trigger TEXT    NOT NULL,
  since   INTEGER NOT NULL,
  until   INTEGER,
  PRIMARY KEY (trigger, since)
) STRICT;
CREATE TABLE double_subscriptions (
  trigger TEXT    NOT NULL,
  owner   TEXT    NOT NULL,
  other   TEXT    NOT NULL,
  last_at INTEGER NOT NULL,
  PRIMARY KEY (trigger, owner, other)
) STRICT;

-- How many terminal rows there are, kept by the transactions that change them, one row a writer and
-- word. For display alone: what a decision needs is counted from rows.
CREATE TABLE tallies (
  writer TEXT    NOT NULL,
  word   TEXT    NOT NULL,
  n      INTEGER NOT NULL,
  PRIMARY KEY (writer, word)
) STRICT;
CREATE TABLE secret_uses (
  source       TEXT    NOT NULL,
  name         TEXT    NOT NULL,
  deliveries   INTEGER NOT NULL,
  last_used_at INTEGER NOT NULL,
  PRIMARY KEY (source, name)
) STRICT;

CREATE TABLE nodes (
  id                 TEXT PRIMARY KEY,
  host               TEXT    NOT NULL,
  pid                INTEGER NOT NULL,
  version            TEXT    NOT NULL,
  components         TEXT    NOT NULL,         -- JSON array
  triggers_hash      TEXT    NOT NULL,
  triggers_loaded_at INTEGER NOT NULL,
  started_at         INTEGER NOT NULL,
  heartbeat_at       INTEGER NOT NULL,
  note               TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE docs (
  kind       TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  version    INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  body       TEXT    NOT NULL,
  PRIMARY KEY (kind, key)
) STRICT;
CREATE TABLE locks (
  name  TEXT PRIMARY KEY,
  owner TEXT    NOT NULL,
  until INTEGER NOT NULL
) STRICT;

CREATE TABLE repairs (
  source       TEXT    NOT NULL,
  guid         TEXT    NOT NULL,
  source_name  TEXT    NOT NULL,
  hook_id      INTEGER NOT NULL,
  event        TEXT    NOT NULL,
  action       TEXT    NOT NULL,
  reason       TEXT    NOT NULL,
  state        TEXT    NOT NULL,
  attempts     INTEGER NOT NULL,
  delivered_at INTEGER NOT NULL,
  found_at     INTEGER NOT NULL,
  next_attempt INTEGER,
  last_attempt INTEGER,
  closed_at    INTEGER,
  last_error   TEXT    NOT NULL,
  PRIMARY KEY (source, guid)
) STRICT;
CREATE INDEX repairs_open ON repairs (source, next_attempt) WHERE state = 'open';
CREATE INDEX repairs_found ON repairs (found_at);
