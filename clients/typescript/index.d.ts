/**
 * @typedef {object} ClientOptions
 * @property {string} [key] A key or token for the server.
 * @property {number} [timeout] How long the server may be silent, in milliseconds; 60,000 when left out. A stream sends a sign
 *   of life every 15 seconds. A request with its files must be sent within this time.
 * @property {number} [maxFailures] How often in a row a connection may fail before the error is thrown; 8 when left out.
 */
/**
 * A file that goes with a turn: its bytes in base64, or an address that the model's server can reach.
 * @typedef {{ media_type: string, name?: string, base64?: string, url?: string }} File
 */
/**
 * @typedef {object} TurnOptions
 * @property {string} [id] Names the turn: sent again under one id it is one run.
 * @property {File[]} [files]
 * @property {boolean} [dry_run] Whether to call no tool that has an effect.
 * @property {boolean} [streaming] Whether models give their answers piece by piece.
 * @property {Record<string, unknown>} [budget] The budget of this turn's run, beyond the team's.
 * @property {number} [deadline] When the run must have ended, in milliseconds since 1970.
 */
/**
 * An event of a run or of a run below it.
 * @typedef {object} Event
 * @property {string | undefined} id Its place in the store's order, from which a stream resumes. A preview, which is not
 *   recorded, has none.
 * @property {string} type Its kind, such as `tool_called`.
 * @property {any} data The fields of this kind.
 * @property {string} run The id of its run.
 * @property {string[]} path The agents from the root's to the one of its run.
 * @property {number} [at] When it was recorded, in milliseconds since 1970.
 */
/** @typedef {{ run: string, operation: string, question: Record<string, any> }} QuestionView */
/** A request that the server refused or could not serve (RFC 9457). */
export class Problem extends Error {
    /**
     * @param {number} status
     * @param {string} detail
     * @param {string} type
     * @param {number} retryAfter
     */
    constructor(status: number, detail: string, type?: string, retryAfter?: number);
    /** The HTTP status. */
    status: number;
    /** What happened, and what to do next. */
    detail: string;
    /** A URI that names the kind of the problem, such as `urn:ghostlight:problem:not-found`. */
    type: string;
    /** After how many milliseconds the server asks to try again; 0 where it does not say. */
    retryAfter: number;
}
/** A server, and a key or token for it. */
export class Client {
    /**
     * @param {string} url
     * @param {ClientOptions} options
     */
    constructor(url: string, { key, timeout, maxFailures }?: ClientOptions);
    /**
     * A session of a team. It begins with its first turn.
     * @param {string} team
     * @param {string} key
     */
    session(team: string, key: string): Session;
    /**
     * The run with this id.
     * @param {string} id
     */
    run(id: string): Run;
    /**
     * The teams that the caller may use.
     * @returns {Promise<Record<string, any>[]>}
     */
    teams(): Promise<Record<string, any>[]>;
    /**
     * Sessions, the latest first; the query is as in `/openapi.json`, such as `{ team: "helpdesk" }`.
     * @param {Record<string, string | number | boolean>} query
     */
    sessions(query?: Record<string, string | number | boolean>): AsyncGenerator<Record<string, any>, void, void>;
    /**
     * Runs, the latest first; the query is as in `/openapi.json`, such as `{ status: "waiting" }`.
     * @param {Record<string, string | number | boolean>} query
     */
    runs(query?: Record<string, string | number | boolean>): AsyncGenerator<Record<string, any>, void, void>;
    /** The open questions of all runs of the caller. */
    questions(): Promise<Question[]>;
    /**
     * One request with its JSON answer. `again` sends it anew after a broken connection, a 429, 502, 503 or 504.
     * @param {string} method
     * @param {string} path
     * @param {unknown} [body]
     * @param {boolean} [again]
     * @returns {Promise<any>}
     */
    request(method: string, path: string, body?: unknown, again?: boolean): Promise<any>;
    /**
     * `until` bounds all attempts together, by `performance.now()`. `done` is the type of the refusal of what an attempt
     * has done whose response was lost.
     * @internal
     * @param {string} method
     * @param {string} path
     * @param {unknown} body
     * @param {{ again: boolean, until?: number, done?: string }} how
     * @returns {Promise<any>}
     */
    attempt(method: string, path: string, body: unknown, { again, until, done }: {
        again: boolean;
        until?: number;
        done?: string;
    }): Promise<any>;
    /**
     * The response to a request that succeeded; a `Problem` otherwise.
     * @internal
     * @param {string} method
     * @param {string} path
     * @param {unknown} body
     * @param {Record<string, string>} headers
     * @param {Silence} silence
     */
    open(method: string, path: string, body: unknown, headers: Record<string, string>, silence: Silence): Promise<Response>;
    /**
     * Waits before another attempt, or throws the error.
     * @internal
     * @param {unknown} error
     * @param {number} failures
     * @param {boolean} again
     * @param {number} [until]
     */
    pause(error: unknown, failures: number, again: boolean, until?: number): Promise<void>;
    /** @internal */
    get timeout(): number;
    #private;
}
/** A conversation with a team. */
export class Session {
    /**
     * @param {Client} client
     * @param {string} team
     * @param {string} key
     */
    constructor(client: Client, team: string, key: string);
    team: string;
    key: string;
    /**
     * Sends a turn, and comes back when it is recorded.
     * @param {string} text
     * @param {TurnOptions} options
     */
    send(text: string, options?: TurnOptions): Promise<Turn>;
    /**
     * Sends a turn, and waits until its run ends or asks something.
     * @param {string} text
     * @param {TurnOptions & { timeout?: number }} options
     */
    ask(text: string, { timeout, ...options }?: TurnOptions & {
        timeout?: number;
    }): Promise<Turn>;
    /**
     * The session's log with its turns.
     * @returns {Promise<Record<string, any>>}
     */
    turns(): Promise<Record<string, any>>;
    /**
     * The conversation, up to the last turn that ended.
     * @returns {Promise<Record<string, any>[]>}
     */
    messages(): Promise<Record<string, any>[]>;
    /**
     * Another session, with this key, that goes on after a number of turns.
     * @param {string} key
     * @param {number} turns
     */
    fork(key: string, turns: number): Promise<Session>;
    /**
     * Goes back to where the session had this number of turns.
     * @param {number} turns
     * @returns {Promise<void>}
     */
    rewind(turns: number): Promise<void>;
    #private;
}
/** A recorded turn. */
export class Turn {
    /**
     * @internal
     * @param {Client} client
     * @param {Record<string, any>} view
     * @param {() => Promise<Record<string, any>>} sent
     */
    constructor(client: Client, view: Record<string, any>, sent: () => Promise<Record<string, any>>);
    /**
     * Its run.
     * @type {Run}
     */
    run: Run;
    /** running, waiting, parked, cancelling, answered, stopped, failed, cancelled or continued. */
    status: string;
    /** Whether the run has ended or is parked. */
    hasEnded: boolean;
    /**
     * The answer, or the best one that the run had when it stopped.
     * @type {string | undefined}
     */
    answer: string | undefined;
    /**
     * Why it stopped before its task was done.
     * @type {string | undefined}
     */
    stopped: string | undefined;
    /**
     * The error with which it failed, or for which it is parked.
     * @type {string | undefined}
     */
    error: string | undefined;
    /**
     * The open questions, if the run waits for answers.
     * @type {Question[]}
     */
    questions: Question[];
    /**
     * Waits until the run ends or asks something, and returns this turn. Throws after `timeout` milliseconds. Where the turn
     * was said to a run that ended without it, `run` becomes the one that took it. Its key needs the scope `read`.
     * @param {number} [timeout]
     */
    wait(timeout?: number): Promise<this>;
    #private;
}
/** A run of a turn, or one below it. */
export class Run {
    /**
     * @param {Client} client
     * @param {string} id
     */
    constructor(client: Client, id: string);
    id: string;
    /**
     * Its status, end, questions and budget.
     * @returns {Promise<Record<string, any>>}
     */
    details(): Promise<Record<string, any>>;
    /** The open questions of the run and of the runs below it. */
    questions(): Promise<Question[]>;
    /**
     * The events of the run and of the runs below it, from the first or behind the id `after`, until the run ends.
     *
     * A stream that breaks is resumed behind the last id: each recorded event comes once. Previews (pieces of an answer) that were
     * sent meanwhile are lost. A connection that gave no event and ended within a second counts as failed.
     * @param {{ after?: string, previews?: boolean }} options
     * @returns {AsyncGenerator<Event, void, void>}
     */
    events({ after, previews }?: {
        after?: string;
        previews?: boolean;
    }): AsyncGenerator<Event, void, void>;
    /**
     * Cancels the run and all below it. Cancelling twice is cancelling once.
     * @param {string} [reason]
     * @returns {Promise<void>}
     */
    cancel(reason?: string): Promise<void>;
    /**
     * Says something to a run at work.
     * @param {string} text
     * @returns {Promise<void>}
     */
    steer(text: string): Promise<void>;
    #private;
}
/** A question of a run, which waits for its answer. */
export class Question {
    /**
     * @internal
     * @param {Client} client
     * @param {QuestionView} view
     */
    constructor(client: Client, { run, operation, question }: QuestionView);
    /** The id of the asking run. */
    run: string;
    /** The operation that asks; the answer names it. */
    operation: string;
    /**
     * The kind of answer that is wanted, such as `approval` or `choice`.
     * @type {string}
     */
    kind: string;
    /**
     * The question, for a person.
     * @type {string}
     */
    prompt: string;
    /**
     * The tool call in question, for an approval.
     * @type {Record<string, any> | undefined}
     */
    call: Record<string, any> | undefined;
    /**
     * The possible answers to a choice.
     * @type {string[]}
     */
    options: string[];
    /** All fields, as the server gives them. */
    raw: Record<string, any>;
    /**
     * Answers. The first answer to a question counts: another one is refused with 409.
     *
     * After a broken connection the answer is sent again. That the question has this answer already is then no error.
     * @param {unknown} value
     * @returns {Promise<void>}
     */
    answer(value: unknown): Promise<void>;
    /**
     * Approves; `more` are further fields of the decision, such as `{ remember: true }`.
     * @param {Record<string, unknown>} more
     */
    approve(more?: Record<string, unknown>): Promise<void>;
    /**
     * Denies an approval, with a reason that the model reads.
     * @param {string} [reason]
     */
    deny(reason?: string): Promise<void>;
    #private;
}
export type ClientOptions = {
    /**
     * A key or token for the server.
     */
    key?: string | undefined;
    /**
     * How long the server may be silent, in milliseconds; 60,000 when left out. A stream sends a sign
     * of life every 15 seconds. A request with its files must be sent within this time.
     */
    timeout?: number | undefined;
    /**
     * How often in a row a connection may fail before the error is thrown; 8 when left out.
     */
    maxFailures?: number | undefined;
};
/**
 * A file that goes with a turn: its bytes in base64, or an address that the model's server can reach.
 */
export type File = {
    media_type: string;
    name?: string;
    base64?: string;
    url?: string;
};
export type TurnOptions = {
    /**
     * Names the turn: sent again under one id it is one run.
     */
    id?: string | undefined;
    files?: File[] | undefined;
    /**
     * Whether to call no tool that has an effect.
     */
    dry_run?: boolean | undefined;
    /**
     * Whether models give their answers piece by piece.
     */
    streaming?: boolean | undefined;
    /**
     * The budget of this turn's run, beyond the team's.
     */
    budget?: Record<string, unknown> | undefined;
    /**
     * When the run must have ended, in milliseconds since 1970.
     */
    deadline?: number | undefined;
};
/**
 * An event of a run or of a run below it.
 */
export type Event = {
    /**
     * Its place in the store's order, from which a stream resumes. A preview, which is not
     * recorded, has none.
     */
    id: string | undefined;
    /**
     * Its kind, such as `tool_called`.
     */
    type: string;
    /**
     * The fields of this kind.
     */
    data: any;
    /**
     * The id of its run.
     */
    run: string;
    /**
     * The agents from the root's to the one of its run.
     */
    path: string[];
    /**
     * When it was recorded, in milliseconds since 1970.
     */
    at?: number | undefined;
};
export type QuestionView = {
    run: string;
    operation: string;
    question: Record<string, any>;
};
/** Aborts a request whose server is silent for a time. */
declare class Silence {
    /** @param {number} timeout */
    constructor(timeout: number);
    signal: AbortSignal;
    /**
     * Bounds one step. The time between the steps is the caller's own.
     * @template T
     * @param {Promise<T>} step
     * @returns {Promise<T>}
     */
    bounds<T>(step: Promise<T>): Promise<T>;
    end(): void;
    #private;
}
export {};
