import { beforeEach, describe, expect, test } from "vitest";
import type { ChatRequest, Frame } from "../../src/api/frames";
import type { Problem } from "../../src/api/result";
import { Stream, type ConnectionState, type SocketEvents, type SocketLike } from "../../src/api/socket";

const BODY: ChatRequest = { model: "smol", messages: [{ role: "user", content: "Hello." }] };

class FakeSocket implements SocketLike {
  readonly sent: Record<string, unknown>[] = [];
  isClosed = false;
  constructor(readonly events: SocketEvents) {}
  send(text: string): void {
    this.sent.push(JSON.parse(text) as Record<string, unknown>);
  }
  close(): void {
    this.isClosed = true;
    this.events.onClose();
  }
  receive(frame: object): void {
    this.events.onMessage(JSON.stringify(frame));
  }
}

let sockets: FakeSocket[];
let timers: (() => void)[];
let clock: number;
let links: ConnectionState[];
let stream: Stream;
let received: Frame[];
let lost: Problem[];

const listener = { onFrame: (frame: Frame) => received.push(frame), onLost: (problem: Problem) => lost.push(problem) };
const last = (): FakeSocket => sockets.at(-1)!;
const frame = (seq: number, type: string, more: object = {}): object => ({ type, turn: "t1", seq, ...more });

beforeEach(() => {
  [sockets, timers, clock, links, received, lost] = [[], [], 0, [], [], []];
  stream = new Stream({
    connect(events) {
      const socket = new FakeSocket(events);
      sockets.push(socket);
      return socket;
    },
    setTimer: (milliseconds, run) =>
      timers.push(() => {
        clock += milliseconds;
        run();
      }),
    now: () => clock,
    onStateChange: (state) => links.push(state),
  });
});

/** A turn in progress: the gateway has sent `started`. */
function startTurn(): { cancel(): void } {
  const turn = stream.sendChat(BODY, listener);
  last().events.onOpen();
  last().receive(frame(1, "started", { ref: last().sent[0]!["ref"], runs: "none", model: "smol" }));
  return turn;
}

describe("a stream", () => {
  test("connects for the first request, and sends it when the connection is open", () => {
    stream.sendChat(BODY, listener);
    expect(last().sent).toEqual([]);
    last().events.onOpen();
    expect(last().sent).toMatchObject([{ type: "ask", api: "openai", body: BODY }]);
    expect(links).toEqual(["connecting", "open"]);
  });

  test("delivers each frame of a turn once and in order", () => {
    startTurn();
    last().receive(frame(2, "token", { text: "a" }));
    last().receive(frame(2, "token", { text: "a" }));
    last().receive(frame(3, "done", { finish_reason: "stop" }));
    last().receive(frame(4, "token", { text: "late" }));
    expect(received.map((frame) => frame.seq)).toEqual([1, 2, 3]);
  });

  test("reconnects and resumes after the last received frame", () => {
    startTurn();
    last().receive(frame(2, "token", { text: "a" }));
    last().events.onClose();
    expect(links.at(-1)).toBe("waiting");
    timers.shift()!();
    last().events.onOpen();
    expect(last().sent).toMatchObject([{ type: "resume", turn: "t1", after: 2 }]);
    last().receive(frame(3, "done", { finish_reason: "stop" }));
    expect(received.map((frame) => frame.seq)).toEqual([1, 2, 3]);
    expect(lost).toEqual([]);
  });

  test("requests missing frames after a gap", () => {
    startTurn();
    last().receive(frame(4, "token", { text: "c" }));
    expect(last().sent.at(-1)).toMatchObject({ type: "resume", turn: "t1", after: 1 });
    expect(received).toHaveLength(1);
  });

  test("never repeats a request that the gateway may have received", () => {
    stream.sendChat(BODY, listener);
    last().events.onOpen();
    last().events.onClose();
    expect(lost).toMatchObject([{ code: "connection_lost" }]);
    expect(timers).toEqual([]);
  });

  test("sends a request later if it was never sent", () => {
    stream.sendChat(BODY, listener);
    last().events.onClose();
    timers.shift()!();
    last().events.onOpen();
    expect(last().sent).toMatchObject([{ type: "ask" }]);
    expect(lost).toEqual([]);
  });

  test("backs off, and gives up when the gateway no longer keeps the turn", () => {
    startTurn();
    last().events.onClose();
    while (timers.length > 0) {
      timers.shift()!();
      last().events.onClose();
    }
    expect(clock).toBeGreaterThan(120_000);
    expect(clock).toBeLessThan(140_000);
    expect(sockets.length).toBeLessThan(30);
    expect(lost).toMatchObject([{ code: "connection_lost" }]);
  });

  test("reports a refused request to its listener", () => {
    stream.sendChat(BODY, listener);
    last().events.onOpen();
    last().receive({ type: "error", turn: "", seq: 1, code: "bad_request", message: "no", ref: last().sent[0]!["ref"] });
    expect(lost).toEqual([{ code: "bad_request", message: "no", hint: "", status: 0 }]);
  });

  test("reports a refused decision, and the turn continues", () => {
    startTurn();
    const refusals: string[] = [];
    stream.confirm("a1", { approve: true }, (problem) => refusals.push(problem.code));
    const ref = last().sent.at(-1)!["ref"];
    last().receive({ type: "error", turn: "", seq: 1, code: "approval_decided", message: "no", ref });
    last().receive(frame(2, "token", { text: "a" }));
    expect(refusals).toEqual(["approval_decided"]);
    expect(received).toHaveLength(2);
  });

  test("does not send a decision later that could not be sent at once", () => {
    startTurn();
    last().events.onClose();
    const refusals: string[] = [];
    stream.confirm("a1", { approve: true }, (problem) => refusals.push(problem.code));
    timers.shift()!();
    last().events.onOpen();
    expect(refusals).toEqual(["connection_lost"]);
    expect(last().sent.map((frame) => frame["type"])).toEqual(["resume"]);
  });

  test("cancels a turn, even before the gateway has sent its id", () => {
    const turn = stream.sendChat(BODY, listener);
    last().events.onOpen();
    turn.cancel();
    expect(last().sent).toHaveLength(1);
    last().receive(frame(1, "started", { ref: last().sent[0]!["ref"], runs: "none", model: "smol" }));
    expect(last().sent.at(-1)).toMatchObject({ type: "cancel", turn: "t1" });
  });

  test("stops following turns and does not reconnect after close", () => {
    startTurn();
    const socket = last();
    stream.close();
    socket.receive(frame(2, "token", { text: "a" }));
    expect(socket.isClosed).toBe(true);
    expect(received).toHaveLength(1);
    expect(timers).toEqual([]);
  });

  test("ignores text that is not a frame", () => {
    startTurn();
    for (const text of ["", "{", "[]", "null", '{"type": 3}', '{"type": "new", "turn": "t2", "seq": 1}']) {
      last().events.onMessage(text);
    }
    last().receive({ type: "keep_alive", turn: "", seq: 1 });
    expect(received).toHaveLength(1);
  });
});
