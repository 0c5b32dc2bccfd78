"""
Breaks the core on purpose, in many small ways, and sees whether the tests notice.

    python tools/mutants.py              all of them
    python tools/mutants.py -k window    those whose name contains "window"
    python tools/mutants.py --list       what there is

A mutant is the core with one piece of text replaced. The tree itself is never touched: a copy of it is made in a temporary
folder, and the changed file lies beside that, where the compiler looks first. Only what includes it is compiled again; the
rest is linked from the cache of tools/cbuild.py.

    old text ──► the one place in csrc/ROOM that has it ──► changed copy ──► program ──► must fail
                 none, or several: the list is out of date, which is a failure too
                                                                │
    a scenario: the first seed that fails is printed, and the same seed must pass without the mutation, so that it is the
    mutation that was caught; a test program must pass without it as well

Spaces and line ends of the old text do not matter, so the formatter may wrap the line. Each line of the output names what
caught the mutant; one that nothing caught ends the run with status 1: a test is missing then.

(The file is long for its list, which stands here because a mutant is read together with how it is judged.)
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cbuild import INCLUDES, ROOT, Build, BuildError, Config, run

RUN_SECONDS_MAX = 120  # of a program without a mutation, and of a thousand seeds with one
HANG_SECONDS_MIN = 30  # a mutant's test program that takes longer than this,
HANG_SEEDS_MAX = (
    100  # who has played more than this in RUN_SECONDS_MAX is slow, and hangs at no seed
)
HANG_TIMES = 5  # and so many times as long as without the mutation, does not end
SEEDS_MAX = 1000  # a mutant that lives longer than this counts as missed
FALSE_ALARMS_MAX = 5  # seeds that fail without the mutation too, before a scenario is given up

# Plays one scenario, seed after seed, up to the first violation. A line for each seed, so that one that stops the program
# is known as well.
PLAYER = r"""
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pyddsi.h"

int main(int argc, char **argv)
{
    const char *name;
    int scenario = 0;
    if (argc != 4)
        return 3;
    while ((name = pyddsi_scenario_name(scenario)) != NULL && strcmp(name, argv[1]) != 0)
        scenario++;
    if (name == NULL)
        return 3;
    for (uint64_t seed = strtoull(argv[2], NULL, 10); seed <= strtoull(argv[3], NULL, 10); seed++) {
        pyddsi_report report;
        printf("seed %" PRIu64 "\n", seed);
        fflush(stdout);
        if (pyddsi_scenario_run(scenario, seed, &report, NULL) != PYDDSI_OK)
            return 3;
        if (report.violations != 0) {
            printf("%s\n", report.violation);
            return 1;
        }
    }
    return 0;
}
"""


HANGS = 1000  # instead of a status: it did not end in time


class MutantError(Exception):
    """A mutant cannot be made or judged: its old text is gone, it does not compile, its proof fails by itself."""


@dataclass(frozen=True)
class Mutant:
    """One way to break the core, and who must notice: a scenario ("pull"), or a test program ("tests/proto_peer")."""

    name: str
    room: str  # below csrc/: the folder with the file
    old: str
    new: str
    proof: str
    seeds: int = SEEDS_MAX


MUTANTS = [
    Mutant(
        "window: commit adds to next without an atomic add",
        "proto",
        "pdi_atomic64_add(&window->word, (uint64_t)count << 32);",
        "pdi_atomic64_store_release(&window->word, pdi_atomic64_load_relaxed(&window->word) + "
        "((uint64_t)count << 32));",
        "tests/proto_window_threads",
    ),
    Mutant(
        "window: an ack stores base without a compare-and-swap",
        "proto",
        "pdi_atomic64_cas(&window->word, &word, (uint64_t)next << 32 | (uint64_t)base)",
        "(pdi_atomic64_store_release(&window->word, (uint64_t)next << 32 | (uint64_t)base), 1)",
        "tests/proto_window_threads",
    ),
    Mutant(
        "window: the acknowledgement of a slow member is not waited for",
        "node",
        "if (member->joined && !member->detached && member->acked < least) { least = member->acked;",
        "if (member->joined && !member->detached && (least == conduit->window.next || "
        "member->acked > least)) { least = member->acked;",
        "fanout",
    ),
    Mutant(
        "session: a peer that answers where it was is given up for one elsewhere",
        "node",
        "return who->gone;",
        "return true;",
        "impostor",
    ),
    Mutant(
        "bond: who looks for one does not say so",
        "proto",
        "(void)pdi_atomic32_add(&other->raised, 1);",
        "",
        "tests/proto_bond",
    ),
    Mutant(
        "repeat: what one member of a group lacks goes to the group",
        "node",
        "if (alone && ((many >> i & 1) == 0 || one < conduit->plain_from)) {",
        "if (alone && one < conduit->plain_from) {",
        "filtered",
    ),
    Mutant(
        "repeat: a slow reader is taken for one that hears no group",
        "node",
        "if (member->lone_asked < PDI_UNREACHED_ASK) {",
        "if (0) {",
        "filtered",
    ),
    Mutant(
        "turn: SYNCHs of a group that are late make a new beginning",
        "node",
        "node->orders[index].steady = !plain;",
        "",
        "lagging",
    ),
    Mutant(
        "order: questions that nothing comes in answer to go on at their pace",
        "proto",
        "order->asks > 1 && is_unanswered(order) ? order->asks - 1 : 0",
        "0",
        "tests/proto_order",
    ),
    Mutant(
        "assembly: a reliable sample without a place is taken in, and lost",
        "node",
        "if (room || !others_hold(node, piece->owner)) {",
        "if (room || piece->number == piece->first) {",
        "pieces",
    ),
    Mutant(
        "assembly: best effort that misses a piece keeps its place",
        "node",
        "if (series != PDI_SERIES_NONE) { /* an owner of best effort has one growing series at most */",
        "if (series == PDI_SERIES_NONE - 1) {",
        "tests/node_assembly",
    ),
    Mutant(
        "assembly: reliable samples wait for best effort",
        "node",
        "while (!room && node->assembler.loose != 0) {",
        "while (!room && node->assembler.loose > 999) {",
        "tests/node_assembly",
    ),
    Mutant(
        "lane: the group is left while a stranger hears it",
        "node",
        "bool unsaid = !pdi_registry_told(node->registry, peer) ||",
        "bool unsaid =",
        "tests/node_strangers",
    ),
    Mutant(
        "fence: a copy overtakes what the peer lacks of the group",
        "node",
        "member->acked < publisher->group_next;",
        "member->detached && member->acked < publisher->group_next;",
        "crossing",
    ),
    Mutant(
        "fence: the group is used again before all copies are acknowledged",
        "node",
        "pdi_fence_open(node, publisher);",
        "publisher->used;",
        "lanes",
    ),
    Mutant(
        "lane: a peer joins that has not heard of its hole",
        "node",
        "bool settled = (node->peers[peer].unsure >> pdi_conduit_bit(node, conduit) & 1) == 0;",
        "bool settled = true;",
        "stopped",
    ),
    Mutant(
        "skip: a hole that nobody has heard of has no line",
        "node",
        "uint64_t lost = conduit->skipped + unheard(node, conduit);",
        "uint64_t lost = conduit->skipped;",
        "stopped",
    ),
    Mutant(
        "lane: puts that wait for a larger one wait for as long as one reader stays away",
        "api",
        "if (!all && now < of->growing) {",
        "if (!all) {",
        "growing",
    ),
    Mutant(
        "session: housekeeping is not told what receiving leaves to it",
        "api",
        "early = early || session->later < session->planned || pdi_node_path_due(session->node) || "
        "pdi_node_due(session->node) < session->planned;",
        "early = early || session->later < session->planned || pdi_node_path_due(session->node);",
        "tests/api_receive",
    ),
    Mutant(
        "peer: torn down while somebody is busy with it",
        "proto",
        "if (view.state != PDI_PEER_EXPIRED || view.busy != 0) {",
        "if (view.state != PDI_PEER_EXPIRED) {",
        "tests/proto_peer",
    ),
    Mutant(
        "ack: an ACKNACK moves nothing",
        "node",
        "member->acked = number; member->begun = 1; member->progress = now;",
        "member->begun = 1; member->progress = now;",
        "pair",
    ),
    Mutant(
        "ack: a SYNCH with S is not answered",
        "node",
        "went_on(node); acknowledge(node, peer, conduit, (message->flags & PYDDSI_S) != 0);",
        "went_on(node); acknowledge(node, peer, conduit, false);",
        "loss",
    ),
    Mutant(
        "nack: what was sent counts as not yet sent",
        "node",
        "if (one >= conduit->sent || (alone && i == 64)) {",
        "if (one < conduit->sent || (alone && i == 64)) {",
        "loss",
    ),
    Mutant(
        "fragments: a hole in a series of best effort is not seen",
        "proto",
        "if (fragment->number != entry->next && !fragment->in_order) {",
        "if (fragment->number != entry->next && fragment->in_order) {",
        "tests/proto_series",
    ),
    Mutant(
        "ring: what a node has in its rings when it closes has no line",
        "node",
        "if (node->readers[i].used) { pdi_ring_drop(",
        "if (node->readers[i].used && node->closing) { pdi_ring_drop(",
        "leave",
    ),
    Mutant(
        "ring: nothing is held for a reader that is full",
        "node",
        "if (reader->on_full == PYDDSI_WAIT &&",
        "if (reader->on_full == PYDDSI_WAIT && reader->depth == 0 &&",
        "slow",
    ),
    Mutant(
        "order: what came before comes again",
        "proto",
        "if (at < order->expected) { return PDI_ORDER_REPEAT; }",
        "if (at < order->expected) { *number = order->expected; return PDI_ORDER_NEXT; }",
        "duplicate",
    ),
    Mutant(
        "order: many SYNCHs of one moment make a new beginning",
        "proto",
        "bool apart = pdi_time_add(order->counted, PDI_ORDER_BEHIND_APART) <= now;",
        "bool apart = order->counted <= now;",
        "tests/proto_order",
    ),
    Mutant(
        "order: a message that waits is kept twice",
        "proto",
        "if (is_kept(order, at)) { return PDI_ORDER_REPEAT; }",
        "if (is_kept(order, at)) { order->count += 0; }",
        "tests/proto_order",
    ),
    Mutant(
        "ledger: no line for what took the place of an older one",
        "node",
        "pdi_drop(node, PYDDSI_AT_RING, PYDDSI_BY_OVERWRITTEN, oldest.space, oldest.resource, 1, now);",
        "",
        "slow",
    ),
    Mutant(
        "ledger: no line for what a lost peer had not acknowledged",
        "node",
        "pdi_drop(node, PYDDSI_AT_WINDOW, reason, entry->space, "
        "(entry->flags & PYDDSI_A) != 0 ? entry->data_id : entry->id, "
        "pdi_pack_samples(entry, conduit->window.memory + entry->at), now);",
        "",
        "partition",
    ),
    Mutant(
        "books: what is forgiven is not counted",
        "node",
        "node->stats.forgiven += conduit->window.next - member->acked;",
        "node->stats.forgiven += 0;",
        "leave",
    ),
    Mutant(
        "pull: the limit is ignored",
        "node",
        "puller->left = limit;",
        "puller->left = UINT64_MAX;",
        "pull",
    ),
    Mutant(
        "guards: each counts for itself",
        "node",
        "conduit->promised = samples == 0 ? 0 : conduit->promised + bytes * samples; "
        "conduit->promised_numbers = samples == 0 ? 0 : "
        "conduit->promised_numbers + numbers * samples;",
        "conduit->promised = samples == 0 ? 0 : bytes * samples; "
        "conduit->promised_numbers = samples == 0 ? 0 : numbers * samples;",
        "guards",
    ),
    Mutant(
        "session: an older one ends a newer one",
        "node",
        "return chore->session > who->session ? NEWER : OLDER;",
        "return chore->session < who->session ? NEWER : OLDER;",
        "crash",
    ),
    Mutant(
        "move: what moves does not wait for what went the old way",
        "node",
        "if (left->expected <= barrier->last_reliable) {",
        "if (left->expected + 1000000 <= barrier->last_reliable) {",
        "auto",
    ),
    Mutant(
        "capture: the padding of a frame is taken for its packet",
        "capture",
        "if (layer->end > layer->stop) layer->end = layer->stop;",
        "",
        "tests/capture_dissect",
    ),
    Mutant(
        "capture: pieces of two packets with one identity become one",
        "capture",
        "return agrees(used, pieces->bytes[slot], piece);",
        "return true;",
        "tests/capture_pieces",
    ),
    Mutant(
        "capture: a repetition that was cut hides bytes that are there",
        "capture",
        "if (known >= piece->size)",
        "if (known > piece->size)",
        "tests/capture_tcp",
    ),
    Mutant(
        "capture: what is held is moved, and nobody told",
        "capture",
        "tcp->held[record.held].at = to + (uint32_t)sizeof(record);",
        "",
        "tests/capture_tcp",
    ),
    Mutant(
        "capture: a snapshot may place a run of bytes behind the memory",
        "capture",
        "if (load->bad || count > end - first) {",
        "if (load->bad) {",
        "tests/capture_pieces",
    ),
    Mutant(
        "trace: exactly opposite counts as ahead",
        "capture",
        "usn = pdi_seq_unwrap(&seq, flow->highest, sn); resets =",
        "usn = pdi_seq_unwrap(&seq, flow->highest + 1, sn); resets =",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: a number too far away is taken",
        "capture",
        "} else if (usn - flow->highest >= PDI_FAR || flow->highest - usn >= PDI_FAR) {",
        "} else if (usn - flow->highest > PDI_FAR || flow->highest - usn > PDI_FAR) {",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: a gap is not remembered",
        "capture",
        "pdi_missing_add(trace, flow, flow->highest + 1, usn - 1);",
        "",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: another id goes on with the old numbers",
        "capture",
        "if (sender->lives != flow->lives) { return true; }",
        "",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: a repeated 0 that was asked for begins an epoch",
        "capture",
        "return sn == 0 ? flow->highest >= 1 && !flow->zero_wanted",
        "return sn == 0 ? flow->highest >= 1",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: a counter that begins again without a greeting",
        "capture",
        "if (sender->greetings == flow->greetings || usn == flow->highest + 1) {",
        "if (usn == flow->highest + 1) {",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: a wrap begins an epoch",
        "capture",
        "if (sender->greetings == flow->greetings || usn == flow->highest + 1) {",
        "if (sender->greetings == flow->greetings) {",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: a SYNCH of an earlier epoch counts",
        "capture",
        "flow->synched = flow->synched && flow->synch_greetings == "
        "trace->parties[flow->source].greetings;",
        "",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: what came before the first SYNCH counts as lost",
        "capture",
        "bool early = !flow->synched || usn <= flow->presync;",
        "bool early = !flow->synched;",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: a SYNCH to a newcomer is none for the group",
        "capture",
        "pdi_flow_synched(trace, flow);",
        "",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: after a silence numbers are told as if there had been none",
        "capture",
        "return lived > 0 && silent * (__int128)flow->seen > lived * (__int128)seq->half;",
        "return lived > 0 && silent * (__int128)flow->seen < 0;",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: after a silence what is below is known",
        "capture",
        "? gone_by(flow, &seq, sn, time_ns) : 0; begin_below(trace, flow, usn);",
        "? gone_by(flow, &seq, sn, time_ns) : 0;",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: what is below a stretch that was given up counts as repeated",
        "capture",
        "flow->lowest = trace->missing[lowest].to + 1;",
        "",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: a number that does not fit is cut off",
        "capture",
        "while (message->sn >> PDI_SEQ_BITS_MAX == 0 && message->sn >> flow->seq_bits != 0) {",
        "while (message->sn >> PDI_SEQ_BITS_MAX != 0 && message->sn >> flow->seq_bits == 0) {",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: who accepts keeps 14 bits",
        "capture",
        "} else if (message->kind == PYDDSI_ACCEPT && other->bits_told) {",
        "} else if (message->kind == PYDDSI_ACCEPT && !other->bits_told) {",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: every acknowledgement is an answer",
        "capture",
        "if (acker->answered >= flow->asks || flow->asked_ns == PDI_NONE64) {",
        "if (flow->asked_ns == PDI_NONE64) {",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: an acknowledgement covers what was never sent",
        "capture",
        "acked = acked <= flow->highest + 1 ? acked : flow->highest + 1;",
        "",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: times are kept though all have acknowledged",
        "capture",
        "flow->base = least > flow->base ? least : flow->base;",
        "",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: a clock that was set back gives a time",
        "capture",
        "if (from == PDI_NONE64 || to == PDI_NONE64 || to < from) {",
        "if (from == PDI_NONE64 || to == PDI_NONE64) {",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: a snapshot forgets that 0 was asked for",
        "capture",
        "flow->zero_wanted = flags >> 3 & 1;",
        "",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: a snapshot forgets who has acknowledged",
        "capture",
        "acker->answered = pdi_store_get(load, UINT64_MAX);",
        "(void)pdi_store_get(load, UINT64_MAX);",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: exactly opposite counts as acknowledged ahead",
        "capture",
        "int64_t usn = pdi_seq_unwrap(&seq, flow->highest, sn);",
        "int64_t usn = pdi_seq_unwrap(&seq, flow->highest + 1, sn);",
        "tests/capture_trace",
    ),
    Mutant(
        "trace: the last silence of a capture counts for nothing",
        "capture",
        "pdi_seen_heard(trace, party, time_ns);",
        "",
        "tests/capture_trace",
    ),
    Mutant(
        "scan: a batch is taken for full only when it is too late",
        "capture",
        "return pdi_scan_fits(scan, bytes + EVENT_ROWS, 32 * bytes + NAMES_OF_ROW);",
        "return true;",
        "tests/capture_scan",
    ),
    Mutant(
        "scan: a frame is done with before its packets",
        "capture",
        "scan->after = scan->phase; scan->phase = PDI_PHASE_MESSAGES;",
        "scan->after = PDI_PHASE_END; scan->phase = PDI_PHASE_MESSAGES;",
        "tests/capture_scan",
    ),
    Mutant(
        "scan: the time range begins one late",
        "capture",
        "(time_ns >= scan->options.from_ns && time_ns < scan->options.until_ns);",
        "(time_ns > scan->options.from_ns && time_ns < scan->options.until_ns);",
        "tests/capture_scan",
    ),
    Mutant(
        "scan: a range goes one frame too far",
        "capture",
        "if (scan->container.at >= scan->limit) {",
        "if (scan->container.at > scan->limit) {",
        "tests/capture_scan",
    ),
    Mutant(
        "scan: bytes of a stream that waited are lost in a snapshot",
        "capture",
        "stream->used = (uint32_t)pdi_store_get_bytes(load, stream->bytes, sizeof stream->bytes);",
        "(void)pdi_store_get_bytes(load, stream->bytes, sizeof stream->bytes);",
        "tests/capture_scan",
    ),
    Mutant(
        "scan: a stream that ends inside a packet is forgotten",
        "capture",
        "if (stream->used != 0 && (part->start || part->end)) {",
        "if (stream->used != 0 && part->lost) {",
        "tests/capture_scan",
    ),
    Mutant(
        "scan: a capture that ends inside a packet says nothing",
        "capture",
        "scan->facts.by_decode[PYDDSI_DECODE_STREAM] += stream->used != 0 && stream->state == PDI_STREAM_READ;",
        "",
        "tests/capture_scan",
    ),
    Mutant(
        "scan: pieces that wait at the end are not counted",
        "capture",
        "pdi_scan_stranger(scan, PDI_OTHER_FRAGMENT, 0, pdi_pieces_fini(scan->dissector.pieces));",
        "(void)pdi_pieces_fini(scan->dissector.pieces);",
        "tests/capture_scan",
    ),
    Mutant(
        "filter: what is not there equals nothing, and so 0",
        "capture",
        "return truth(can && is);",
        "return truth(is);",
        "tests/capture_sink",
    ),
    Mutant(
        "filter: less is less or equal",
        "capture",
        "step == PYDDSI_STEP_LT ? order < 0",
        "step == PYDDSI_STEP_LT ? order <= 0",
        "tests/capture_sink",
    ),
    Mutant(
        "filter: one text is read beyond the others",
        "capture",
        "(step->a > texts_size || step->size > texts_size - step->a))",
        "(step->a > texts_size))",
        "tests/capture_sink",
    ),
    Mutant(
        "filter: a stack may be taken from when it is empty",
        "capture",
        "if (step->step > PYDDSI_STEP_NULL || takes(step->step) > depth ||",
        "if (step->step > PYDDSI_STEP_NULL ||",
        "tests/capture_sink",
    ),
    Mutant(
        "sink: no value is a value",
        "capture",
        "array->nulls += !there;",
        "array->nulls += there;",
        "tests/capture_sink",
    ),
    Mutant(
        "sink: rows of a block refer to another packet",
        "capture",
        "row->packet = sink->packets - 1;",
        "row->packet = sink->packets - 1 - (sink->packets > 1);",
        "tests/capture_sink",
    ),
    Mutant(
        "hide: an address keeps its end",
        "capture",
        "unsigned turn = i >= from ? (unsigned)hash_of(hide, state, i) & 1U : 0;",
        "unsigned turn = i >= from && out[0] > 11 ? (unsigned)hash_of(hide, state, i) & 1U : 0;",
        "tests/capture_hide",
    ),
    Mutant(
        "hide: what breaks a rule is left as it was",
        "capture",
        "memset(data + behind, NO_NUMBER, size - behind);",
        "",
        "tests/capture_hide",
    ),
    Mutant(
        "hide: batches keep their payloads",
        "capture",
        "hide_samples(data, *list);",
        "",
        "tests/capture_hide",
    ),
    Mutant(
        "hide: an acceptor is known by its id",
        "capture",
        "hide_id(hide, own(data, bytes->data), bytes->size);",
        "",
        "tests/capture_hide",
    ),
    Mutant(
        "pace: a packet leaves before its deadline",
        "host",
        "if (way->port != port || due > now) {",
        "if (way->port != port) {",
        "tests/host_pace",
    ),
    Mutant(
        "pace: a packet leaves by another sender's socket",
        "host",
        "if (way->port != port || due > now) {",
        "if (due > now) {",
        "tests/host_pace",
    ),
    Mutant(
        "lease: a peer that is gone is never given up",
        "proto",
        "bool passed = now_ms - view.deadline_ms - 1 < UINT32_MAX / 2;",
        "bool passed = now_ms == view.deadline_ms - 1;",
        "leave",
    ),
    Mutant(
        "container: a record is taken that is not whole",
        "capture",
        "head[2] <= PDI_FRAME_BYTES_MAX && head[2] <= size - PDI_RECORD_HEAD",
        "head[2] <= PDI_FRAME_BYTES_MAX && head[2] <= size",
        "tests/capture_container",
    ),
    Mutant(
        "container: a section keeps the interfaces of the one before it",
        "capture",
        "container->interfaces = 0;",
        "container->interfaces += 0;",
        "tests/capture_container",
    ),
    Mutant(
        "history: new readers do not wait for it",
        "node",
        "pdi_bitset_set(reader->waits, peer); node->waiting++;",
        "",
        "history",
    ),
    Mutant(
        "history: what is kept is for older readers as well",
        "node",
        "bool asked = waits && pdi_bitset_test(reader->asked, peer) &&",
        "bool asked = waits >= 0 &&",
        "history",
    ),
    Mutant(
        "history: who waits gets what comes",
        "node",
        "if (live ? !waits : asked) {",
        "if (live || asked) {",
        "history",
    ),
    Mutant(
        "history: put does not wait for late joiners",
        "node",
        "(publisher->reliable && !pdi_shelf_caught_up(node, publisher, now))",
        "false",
        "history",
    ),
    Mutant(
        "history: a peer that has a subscription again gets all of it again",
        "node",
        "puller->next = puller->wanting ? puller->next : publisher->shelf_next;",
        "puller->next = 0;",
        "history",
    ),
    Mutant(
        "history: a pattern brings what a name has brought",
        "node",
        "(kind == PDI_TAKER_PEER ? puller->peer == remote->peer : puller->serial == remote->serial)",
        "puller->serial == remote->serial",
        "history",
    ),
    Mutant(
        "history: best effort of before is not old",
        "node",
        "order->best_next = at;",
        "",
        "history",
    ),
    Mutant(
        "write: a checksum of 0 says that there is none",
        "capture",
        "check != 0 ? check : UINT16_MAX",
        "check",
        "tests/capture_write",
    ),
    Mutant(
        "tap: nobody tells the taker that there is something",
        "api",
        "(void)pdi_bell_ring(&tap->some); if (used",
        "if (used",
        "tests/api_tap",
    ),
    Mutant(
        "tap: the end of the ring counts as room",
        "api",
        "head - tail + skip + span > tap->size",
        "head - tail + span > tap->size",
        "tests/api_tap",
    ),
    Mutant(
        "tap: all samples of shared memory have one number",
        "api",
        "speaker->next++, pieces",
        "speaker->next, pieces",
        "tests/api_tap",
    ),
    Mutant(
        "tap: a connection begins where the one before it did",
        "api",
        "(uint32_t)(made->connections << 20)",
        "(uint32_t)(made->connections * 0)",
        "tests/api_tap",
    ),
    Mutant(
        "tap: a record goes on where another one stopped",
        "api",
        "tap->made->done = 0; return PYDDSI_OK;",
        "return PYDDSI_OK;",
        "tests/api_tap",
    ),
]


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    caught: bool
    seconds: float
    words: str

    def line(self) -> str:
        """The one line about it."""
        word = "caught" if self.caught else "MISSED"
        return f"{word} {self.seconds:6.1f} s  {self.mutant.name}\n       {self.words}"


def pattern(old: str) -> re.Pattern[str]:
    """The old text, with any white space where it has some."""
    return re.compile(r"\s+".join(re.escape(word) for word in old.split()))


def place(root: Path, mutant: Mutant) -> tuple[Path, str]:
    """The file that has the old text, and what it says once that is replaced."""
    wanted = pattern(mutant.old)
    found = []
    for path in sorted((root / "csrc" / mutant.room).glob("*.[ch]")):
        text = path.read_text()
        found += [(path, text, hit) for hit in wanted.finditer(text)]
    if len(found) != 1:
        where = ", ".join(str(path.relative_to(root)) for path, _, _ in found) or "nowhere"
        raise MutantError(f"its text must stand in csrc/{mutant.room} once; it stands {where}")
    path, text, hit = found[0]
    return path, text[: hit.start()] + mutant.new + text[hit.end() :]


class Lab:
    """A copy of the core as it is, and programs of it with one file changed."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.folder = folder
        self.root = folder / "tree"
        for part in ("csrc", "tests/c", "tests/seeds"):
            if (root / part).exists():
                shutil.copytree(root / part, self.root / part)
        self.build = Build(Config("gcc"), root)
        sources = self.build.core()
        self.objects = {}
        for source, (made, _) in zip(sources, self.build.objects(sources), strict=True):
            copy = self.root / source.relative_to(root)
            self.objects[copy] = made
        files = {path: path.read_bytes() for path in self.root.glob("csrc/**/*.[ch]")}
        if any((root / path.relative_to(self.root)).read_bytes() != files[path] for path in files):
            raise BuildError("somebody is changing the tree; try again")
        self.player = folder / "player.c"
        self.player.write_text(PLAYER)

    @cached_property
    def included(self) -> dict[Path, set[Path]]:
        """Of each source: all headers of the tree that it includes, also by way of others."""
        files = [*self.root.glob("csrc/**/*.[ch]"), *self.root.glob("tests/c/*.[ch]")]
        folders = [self.root / include.removeprefix("-I") for include in INCLUDES]
        direct = {}
        for path in files:
            names = re.findall(r'#\s*include\s*"([^"]+)"', path.read_text())
            tries = [folder / name for name in names for folder in [path.parent, *folders]]
            direct[path] = {header for header in tries if header.exists()}
        closure = {}
        for path in files:
            seen: set[Path] = set()
            fresh = {path}
            while fresh:
                seen |= fresh
                fresh = set().union(*(direct.get(header, set()) for header in fresh)) - seen
            closure[path] = seen
        return closure

    def compile(self, source: Path, output: Path, overlay: Path | None) -> Path:
        """One source, with the headers of the overlay before those of the tree."""
        first = [] if overlay is None else [f"-I{overlay / 'csrc'}"]
        flags = [flag for flag in self.build.config.flags if flag != "-Werror" and flag[:2] != "-W"]
        output.parent.mkdir(parents=True, exist_ok=True)
        command = [self.build.config.cc, *first, *flags, "-w", "-c", str(source)]
        run([*command, "-o", str(output)], self.root)
        return output

    def link(self, name: str, objects: Iterable[Path]) -> Path:
        """A program."""
        output = self.folder / name
        inputs = [str(path) for path in objects]
        run([self.build.config.cc, *inputs, "-pthread", "-o", str(output)], self.root)
        return output

    def program(self, number: int, proof: str, changed: tuple[Path, str] | None) -> Path:
        """What proves: a test program or the player, with the core, of which one file may be changed."""
        here = self.folder / (f"mutant{number}" if changed else f"sound{number}")
        objects = dict(self.objects)
        main = self.player
        if proof.startswith("tests/"):
            main = self.root / "tests" / "c" / f"{proof.removeprefix('tests/')}.c"
        overlay = None
        if changed is not None:
            path, text = changed
            overlay = here / "changed"
            copy = overlay / path.relative_to(self.root)
            copy.parent.mkdir(parents=True)
            copy.write_text(text)
            for source in self.objects:
                if path in self.included[source]:
                    moved = copy if source == path else source
                    output = here / source.relative_to(self.root).with_suffix(".o")
                    objects[source] = self.compile(moved, output, overlay)
        own = self.compile(main, here / "main.o", overlay)
        return self.link(f"{here.name}.out", [own, *objects.values()])

    def play(
        self, program: Path, arguments: list[str], seconds: float | None = None
    ) -> tuple[int, list[str]]:
        """Its status, or HANGS, and its lines."""
        try:
            done = subprocess.run(
                [str(program), *arguments],
                cwd=self.root,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=seconds or RUN_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired as error:
            return HANGS, (error.stdout or b"").decode(errors="replace").splitlines()
        return done.returncode, done.stdout.decode(errors="replace").splitlines()


def last_words(lines: list[str]) -> str:
    """The line that says what is wrong, rather than how many checks there were."""
    telling = [line.strip() for line in lines if "failed" in line or " is " in line]
    return (telling or lines or [""])[0][:140]


def try_test(lab: Lab, number: int, mutant: Mutant, changed: tuple[Path, str]) -> tuple[bool, str]:
    """Whether a test program fails with the mutation, and only with it."""
    start = time.monotonic()
    status, lines = lab.play(lab.program(number, mutant.proof, None), [])
    if status != 0:
        raise MutantError(f"{mutant.proof} fails by itself: {last_words(lines)}")
    limit = max(HANG_SECONDS_MIN, HANG_TIMES * (time.monotonic() - start))
    status, lines = lab.play(lab.program(number, mutant.proof, changed), [], limit)
    words = {0: "passes", HANGS: f"does not end within {limit:.0f} s"}
    return status != 0, f"{mutant.proof}: {words.get(status) or last_words(lines)}"


def try_scenario(
    lab: Lab, number: int, mutant: Mutant, changed: tuple[Path, str], sound: Path
) -> tuple[bool, str]:
    """Whether some seed of a scenario fails with the mutation, and passes without it."""
    program = lab.program(number, mutant.proof, changed)
    first = 1
    for _ in range(FALSE_ALARMS_MAX):
        status, lines = lab.play(program, [mutant.proof, str(first), str(mutant.seeds)])
        if status == 0:
            return False, f"{mutant.proof}: seeds 1 to {mutant.seeds} pass"
        if status == 3:
            raise MutantError(f"there is no scenario {mutant.proof}, or no memory for it")
        seeds = [line.removeprefix("seed ") for line in lines if line.startswith("seed ")]
        words = [line for line in lines if not line.startswith("seed ")]
        if status == HANGS and len(seeds) > HANG_SEEDS_MAX:
            raise MutantError(f"{mutant.proof}: only {seeds[-1]} seeds in {RUN_SECONDS_MAX} s")
        mute = "it does not end" if status == HANGS else "it crashes"
        status, _ = lab.play(sound, [mutant.proof, seeds[-1], seeds[-1]])
        if status == 0:
            return True, f"{mutant.proof} seed {seeds[-1]}: {(words or [mute])[-1][:120]}"
        first = int(seeds[-1]) + 1
    raise MutantError(f"{mutant.proof} fails by itself, at seed {first - 1} last")


def try_mutant(lab: Lab, number: int, mutant: Mutant, sound: Path) -> Outcome:
    """Make it, run its proof, judge."""
    start = time.monotonic()
    try:
        changed = place(lab.root, mutant)
        if mutant.proof.startswith("tests/"):
            caught, words = try_test(lab, number, mutant, changed)
        else:
            caught, words = try_scenario(lab, number, mutant, changed, sound)
    except (MutantError, BuildError) as error:
        caught, words = False, f"cannot be judged: {error}"
    return Outcome(mutant, caught, time.monotonic() - start, words)


def hunt(mutants: list[Mutant], root: Path = ROOT) -> bool:
    """Try them all and print a line for each; true when each was caught."""
    if not mutants:
        print("no such mutant")
        return False
    start = time.monotonic()
    outcomes = []
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(os.cpu_count()) as pool:
        lab = Lab(Path(name), root)
        sound = lab.program(len(mutants), "", None)
        jobs = [pool.submit(try_mutant, lab, i, one, sound) for i, one in enumerate(mutants)]
        for job in jobs:
            outcomes.append(job.result())
            print(outcomes[-1].line(), flush=True)
    missed = sum(not outcome.caught for outcome in outcomes)
    seconds = time.monotonic() - start
    print(f"{len(mutants) - missed} caught, {missed} missed, {seconds:.0f} s")
    return missed == 0


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Break the core and see whether tests notice.")
    parser.add_argument("-k", dest="part", default="", help="only those whose name contains this")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    chosen = parser.parse_args(arguments)
    mutants = [mutant for mutant in MUTANTS if chosen.part in mutant.name]
    if chosen.list:
        for mutant in mutants:
            print(f"{mutant.proof:28} {mutant.name}")
        return 0
    try:
        return 0 if hunt(mutants, root) else 1
    except BuildError as error:
        print(error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
