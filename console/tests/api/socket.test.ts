import { beforeEach, describe, expect, test } from "vitest";
import type { AskBody, Frame } from "../../src/api/frames";
import type { Problem } from "../../src/api/result";
import { Stream, type Link, type SocketEvents, type SocketLike } from "../../src/api/socket";

const BODY: AskBody = { model: "smol", messages: [{ role: "user", content: "Hello." }] };

class FakeSocket implements SocketLike {
  readonly sent: Record<string, unknown>[] = [];
  isClosed = false;
  constructor(readonly events: SocketEvents) {}
  send(text: string): void {
    this.sent.push(JSON.parse(text) as Record<string, unknown>);
  }
  close(): void {
    this.isClosed = true;
    this.events.closed();
  }
  hears(frame: object): void {
    this.events.heard(JSON.stringify(frame));
  }
}

let sockets: FakeSocket[];
let timers: (() => void)[];
let clock: number;
let links: Link[];
let stream: Stream;
let heard: Frame[];
let lost: Problem[];

const listener = { frame: (frame: Frame) => heard.push(frame), lost: (problem: Problem) => lost.push(problem) };
const last = (): FakeSocket => sockets.at(-1)!;
const told = (seq: number, type: string, more: object = {}): object => ({ type, turn: "t1", seq, ...more });

beforeEach(() => {
  [sockets, timers, clock, links, heard, lost] = [[], [], 0, [], [], []];
  stream = new Stream({
    connect(events) {
      const socket = new FakeSocket(events);
      sockets.push(socket);
      return socket;
    },
    later: (milliseconds, run) =>
      timers.push(() => {
        clock += milliseconds;
        run();
      }),
    now: () => clock,
    link: (state) => links.push(state),
  });
});

/** A turn under way, of which the gateway has sent `started`. */
function started(): { cancel(): void } {
  const turn = stream.ask(BODY, listener);
  last().events.opened();
  last().hears(told(1, "started", { ref: last().sent[0]!["ref"], runs: "none", model: "smol" }));
  return turn;
}

describe("a stream", () => {
  test("connects for the first ask, and sends it when there is a connection", () => {
    stream.ask(BODY, listener);
    expect(last().sent).toEqual([]);
    last().events.opened();
    expect(last().sent).toMatchObject([{ type: "ask", api: "openai", body: BODY }]);
    expect(links).toEqual(["connecting", "open"]);
  });

  test("hands on each frame of a turn once and in order", () => {
    started();
    last().hears(told(2, "token", { text: "a" }));
    last().hears(told(2, "token", { text: "a" }));
    last().hears(told(3, "done", { finish_reason: "stop" }));
    last().hears(told(4, "token", { text: "late" }));
    expect(heard.map((frame) => frame.seq)).toEqual([1, 2, 3]);
  });

  test("comes back after a loss and resumes after the last frame it has", () => {
    started();
    last().hears(told(2, "token", { text: "a" }));
    last().events.closed();
    expect(links.at(-1)).toBe("waiting");
    timers.shift()!();
    last().events.opened();
    expect(last().sent).toMatchObject([{ type: "resume", turn: "t1", after: 2 }]);
    last().hears(told(3, "done", { finish_reason: "stop" }));
    expect(heard.map((frame) => frame.seq)).toEqual([1, 2, 3]);
    expect(lost).toEqual([]);
  });

  test("asks for what is missing where there is a gap", () => {
    started();
    last().hears(told(4, "token", { text: "c" }));
    expect(last().sent.at(-1)).toMatchObject({ type: "resume", turn: "t1", after: 1 });
    expect(heard).toHaveLength(1);
  });

  test("never asks twice by itself: an ask that may have been heard is lost", () => {
    stream.ask(BODY, listener);
    last().events.opened();
    last().events.closed();
    expect(lost).toMatchObject([{ code: "connection_lost" }]);
    expect(timers).toEqual([]);
  });

  test("asks when it could not be sent before", () => {
    stream.ask(BODY, listener);
    last().events.closed();
    timers.shift()!();
    last().events.opened();
    expect(last().sent).toMatchObject([{ type: "ask" }]);
    expect(lost).toEqual([]);
  });

  test("waits longer each time, and gives up when the gateway has forgotten the turn", () => {
    started();
    last().events.closed();
    while (timers.length > 0) {
      timers.shift()!();
      last().events.closed();
    }
    expect(clock).toBeGreaterThan(120_000);
    expect(clock).toBeLessThan(140_000);
    expect(sockets.length).toBeLessThan(30);
    expect(lost).toMatchObject([{ code: "connection_lost" }]);
  });

  test("tells a refused ask to who asked", () => {
    stream.ask(BODY, listener);
    last().events.opened();
    last().hears({ type: "error", turn: "", seq: 1, code: "bad_request", message: "no", ref: last().sent[0]!["ref"] });
    expect(lost).toEqual([{ code: "bad_request", message: "no", hint: "", status: 0 }]);
  });

  test("tells a refused word to who gave it, and the turn goes on", () => {
    started();
    const refusals: string[] = [];
    stream.confirm("a1", { approve: true }, (problem) => refusals.push(problem.code));
    const ref = last().sent.at(-1)!["ref"];
    last().hears({ type: "error", turn: "", seq: 1, code: "approval_decided", message: "no", ref });
    last().hears(told(2, "token", { text: "a" }));
    expect(refusals).toEqual(["approval_decided"]);
    expect(heard).toHaveLength(2);
  });

  test("sends no word later that could not be sent now", () => {
    started();
    last().events.closed();
    const refusals: string[] = [];
    stream.confirm("a1", { approve: true }, (problem) => refusals.push(problem.code));
    timers.shift()!();
    last().events.opened();
    expect(refusals).toEqual(["connection_lost"]);
    expect(last().sent.map((frame) => frame["type"])).toEqual(["resume"]);
  });

  test("cancels a turn, also one that has no name yet", () => {
    const turn = stream.ask(BODY, listener);
    last().events.opened();
    turn.cancel();
    expect(last().sent).toHaveLength(1);
    last().hears(told(1, "started", { ref: last().sent[0]!["ref"], runs: "none", model: "smol" }));
    expect(last().sent.at(-1)).toMatchObject({ type: "cancel", turn: "t1" });
  });

  test("that is closed follows nothing more and does not come back", () => {
    started();
    const socket = last();
    stream.close();
    socket.hears(told(2, "token", { text: "a" }));
    expect(socket.isClosed).toBe(true);
    expect(heard).toHaveLength(1);
    expect(timers).toEqual([]);
  });

  test("passes over what is no frame", () => {
    started();
    for (const text of ["", "{", "[]", "null", '{"type": 3}', '{"type": "new", "turn": "t2", "seq": 1}']) {
      last().events.heard(text);
    }
    last().hears({ type: "keep_alive", turn: "", seq: 1 });
    expect(heard).toHaveLength(1);
  });
});
