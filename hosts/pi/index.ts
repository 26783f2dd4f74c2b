// slowwave: the memory of earlier sessions for Pi. Written by `slowwave hosts install pi`; a new install replaces it.
//
// Every event is one short run of slowwave-hook: JSON on its standard input, JSON on its standard output. Nothing here
// can fail or hold up a turn: whatever goes wrong, Pi goes on without memory. What the hook says goes into requests
// through `context` only, so it never reaches the session file.

import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ContextEvent, ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";

type Fields = Record<string, unknown>;

/** What `command.json` beside this file says: programs with their first arguments, and the tools to offer. */
interface Commands {
	hook: string[];
	tool: string[];
	tools: Tool[];
}

/** `asks`: it takes something away for good, so the user is asked each time. */
interface Tool {
	name: string;
	label: string;
	description: string;
	parameters: Fields;
	asks: boolean;
}

const ANSWER_MS = 1_000;
const LEAVE_MS = 300;
const TOOL_MS = 30_000;
const TITLES_MS = 1_000;
/** The session's own record of what it alone keeps (scope agent). */
const ENTRIES = "slowwave-entries";
const MAX_ANSWER = 256 * 1024;
/** A tool call that can have read a source of memory; all others are none of our business, ours count by themselves. */
const OF_MEMORY = /rollout_summaries\/|ad_hoc\/notes\//;

export default function slowwave(pi: ExtensionAPI): void {
	const commands = readCommands();
	// The mark of sessions slowwave itself started: they are no one's memory.
	if (!commands || process.env.SLOWWAVE_OWN_SESSION) return;

	let memory = "";
	const installed = commands.tool.filter((word) => word.startsWith("/"));
	const offers = installed.length > 0 && installed.every((file) => existsSync(file));
	/** Titles of what was remembered, the same for the whole session: what they name is read with a tool. */
	let titles: Promise<string> = Promise.resolve("");

	pi.on("session_start", async (event, ctx) => {
		if (offers) titles = run(commands.tool, "titles", {}, ctx).then((said) => (said.failed ? "" : said.text), () => "");
		memory = await ask(commands.hook, facts("session_start", ctx, { reason: event.reason }), ctx);
	});

	pi.on("before_agent_start", async (event, ctx) => {
		if (event.messageType !== "user") return undefined;
		// Pi has no name for the message yet: where it hangs, and what it says.
		const place = `${ctx.sessionManager.getLeafId() ?? ""}\n${event.prompt}`;
		const prompt_id = createHash("sha256").update(place).digest("hex").slice(0, 16);
		memory = await ask(commands.hook, facts("before_agent_start", ctx, { prompt_id }), ctx);
		const known = await within(TITLES_MS, titles);
		return known ? { systemPrompt: `${event.systemPrompt}\n\n${known}` } : undefined;
	});

	pi.on("context", (event) => {
		const newest = event.messages.findLastIndex((message) => message.role === "user");
		if (!memory || newest < 0) return undefined;
		return { messages: event.messages.toSpliced(newest, 0, asMessage(memory)) };
	});

	pi.on("tool_result", (event, ctx) => {
		const { toolName: tool_name, input: tool_input, content, isError } = event;
		const text = content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
		const about = { tool_name, tool_input, tool_response: text, isError };
		if (!tool_name.startsWith("memory_") && OF_MEMORY.test(JSON.stringify(about))) tell(commands.hook, facts("tool_result", ctx, about), ctx);
	});

	pi.on("agent_settled", (_event, ctx) => {
		tell(commands.hook, facts("agent_settled", ctx, {}), ctx);
	});

	pi.on("session_shutdown", async (event, ctx) => {
		const told = tell(commands.hook, facts("session_shutdown", ctx, { reason: event.reason }), ctx);
		await within(LEAVE_MS, told);
	});

	if (offers) for (const tool of commands.tools) register(pi, commands.tool, tool);
}

function register(pi: ExtensionAPI, program: string[], tool: Tool): void {
	pi.registerTool({
		name: tool.name,
		label: tool.label,
		description: tool.description,
		parameters: Type.Unsafe<Fields>(tool.parameters),
		async execute(_id, params, signal, _onUpdate, ctx) {
			if (tool.asks && !(await agreed(tool, params, ctx))) throw new Error("The user did not agree; nothing was changed.");
			const before = entriesOf(ctx);
			const said = await run(program, tool.name, { arguments: params, entries: before }, ctx, signal);
			if (said.failed) throw new Error(said.text);
			if (JSON.stringify(said.entries) !== JSON.stringify(before)) pi.appendEntry(ENTRIES, said.entries);
			return { content: [{ type: "text", text: said.text }], details: {} };
		},
	});
}

async function agreed(tool: Tool, params: Fields, ctx: ExtensionContext): Promise<boolean> {
	return ctx.hasUI && (await ctx.ui.confirm(tool.label, `${tool.name} ${JSON.stringify(params)}`));
}

/** What this session alone keeps, as its last record says. */
function entriesOf(ctx: ExtensionContext): Fields[] {
	const last = ctx.sessionManager.getBranch().findLast((entry) => entry.type === "custom" && entry.customType === ENTRIES);
	return last?.type === "custom" && Array.isArray(last.data) ? last.data.filter(isFields) : [];
}

interface Said {
	text: string;
	failed: boolean;
	entries: Fields[];
}

/** One call of a tool: JSON in, JSON out, no shell. Rejects when the program does not answer. */
async function run(
	program: string[],
	name: string,
	about: Fields,
	ctx: ExtensionContext,
	signal?: AbortSignal,
): Promise<Said> {
	const session = ctx.sessionManager.getSessionId();
	const child = start([...program, name, "-", "--json"], ctx, "pipe");
	const stop = () => child.kill("SIGKILL");
	signal?.addEventListener("abort", stop, { once: true });
	try {
		child.stdin?.end(JSON.stringify({ session, ...about }));
		const text = await within(TOOL_MS, answerOf(child));
		const said: unknown = JSON.parse(text || "null");
		if (!isFields(said) || typeof said.text !== "string") throw new Error("Memory did not answer.");
		const entries = Array.isArray(said.entries) ? said.entries.filter(isFields) : [];
		return { text: said.text, failed: said.failed === true, entries };
	} finally {
		signal?.removeEventListener("abort", stop);
		stop();
	}
}

/**
 * Memory as it stands in one request, right before the newest prompt: everything up to the former turn stays as it was
 * sent before, and providers need not read it again.
 */
function asMessage(text: string): ContextEvent["messages"][number] {
	return { role: "user", content: [{ type: "text", text }], timestamp: 0 };
}

/** What every call carries, in the words of the other hosts' hooks. */
function facts(event: string, ctx: ExtensionContext, more: Fields): Fields {
	return {
		hook_event_name: event,
		session_id: ctx.sessionManager.getSessionId(),
		leaf_id: ctx.sessionManager.getLeafId(),
		transcript_path: ctx.sessionManager.getSessionFile() ?? null,
		cwd: ctx.cwd,
		...more,
	};
}

/** Runs the hook and returns the text it wants injected: "" for none, for a failure, and when it takes too long. */
async function ask(hook: string[], payload: Fields, ctx: ExtensionContext): Promise<string> {
	try {
		const child = start(hook, ctx, "pipe");
		child.stdin?.end(JSON.stringify(payload));
		const text = await within(ANSWER_MS, answerOf(child));
		if (text === undefined) child.kill("SIGKILL");
		const said: unknown = JSON.parse(text || "{}");
		const output = isFields(said) && isFields(said.hookSpecificOutput) ? said.hookSpecificOutput : {};
		return typeof output.additionalContext === "string" ? output.additionalContext : "";
	} catch {
		return "";
	}
}

/** All that a program prints; "" for one that cannot be started. */
function answerOf(child: ChildProcess): Promise<string> {
	return new Promise((resolve) => {
		let text = "";
		child.stdout?.setEncoding("utf8").on("data", (piece: string) => {
			if (text.length < MAX_ANSWER) text += piece;
		});
		child.on("error", () => resolve(""));
		child.on("close", () => resolve(text));
	});
}

/** Hands the hook an event and does not wait for it; resolves when the event is handed over. */
function tell(hook: string[], payload: Fields, ctx: ExtensionContext): Promise<void> {
	return new Promise((resolve) => {
		try {
			const child = start(hook, ctx, "ignore");
			child.on("error", () => resolve());
			child.unref();
			child.stdin?.end(JSON.stringify(payload), () => resolve());
		} catch {
			resolve();
		}
	});
}

function start(hook: string[], ctx: ExtensionContext, out: "pipe" | "ignore"): ChildProcess {
	const [program = "", ...rest] = hook;
	const child = spawn(program, rest, { cwd: ctx.cwd, stdio: ["pipe", out, "ignore"], detached: out === "ignore" });
	child.stdin?.on("error", () => {});
	return child;
}

/** The value of a promise, or undefined when the time is over. */
async function within<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
	let timer: NodeJS.Timeout | undefined;
	const late = new Promise<undefined>((resolve) => {
		timer = setTimeout(() => resolve(undefined), ms);
	});
	try {
		return await Promise.race([promise, late]);
	} finally {
		clearTimeout(timer);
	}
}

function readCommands(): Commands | undefined {
	try {
		const path = join(dirname(fileURLToPath(import.meta.url)), "command.json");
		const said: unknown = JSON.parse(readFileSync(path, "utf8"));
		if (!isFields(said)) return undefined;
		const hook = strings(said.hook);
		const tools = Array.isArray(said.tools) ? said.tools.filter(isTool) : [];
		return hook.length ? { hook, tool: strings(said.tool), tools } : undefined;
	} catch {
		return undefined;
	}
}

function strings(value: unknown): string[] {
	return Array.isArray(value) && value.every((item) => typeof item === "string") ? value : [];
}

function isTool(value: unknown): value is Tool {
	if (!isFields(value) || !isFields(value.parameters) || typeof value.asks !== "boolean") return false;
	return [value.name, value.label, value.description].every((text) => typeof text === "string");
}

function isFields(value: unknown): value is Fields {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}
