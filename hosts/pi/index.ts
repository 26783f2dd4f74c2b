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

/** What `command.json` beside this file says: programs with their first arguments. */
interface Commands {
	hook: string[];
	remember: string[];
}

const ANSWER_MS = 1_000;
const LEAVE_MS = 300;
const REMEMBER_MS = 15_000;
const MAX_ANSWER = 256 * 1024;
/** A tool call that can have read a source of memory; all others are none of our business. */
const OF_MEMORY = /rollout_summaries\/|ad_hoc\/notes\/|memory_recall/;

export default function slowwave(pi: ExtensionAPI): void {
	const commands = readCommands();
	// The mark of sessions slowwave itself started: they are no one's memory.
	if (!commands || process.env.SLOWWAVE_OWN_SESSION) return;

	let memory = "";

	pi.on("session_start", async (event, ctx) => {
		memory = await ask(commands.hook, facts("session_start", ctx, { reason: event.reason }), ctx);
	});

	pi.on("before_agent_start", async (event, ctx) => {
		if (event.messageType !== "user") return;
		// Pi has no name for the message yet: where it hangs, and what it says.
		const place = `${ctx.sessionManager.getLeafId() ?? ""}\n${event.prompt}`;
		const prompt_id = createHash("sha256").update(place).digest("hex").slice(0, 16);
		memory = await ask(commands.hook, facts("before_agent_start", ctx, { prompt_id }), ctx);
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
		if (OF_MEMORY.test(JSON.stringify(about))) tell(commands.hook, facts("tool_result", ctx, about), ctx);
	});

	pi.on("agent_settled", (_event, ctx) => {
		tell(commands.hook, facts("agent_settled", ctx, {}), ctx);
	});

	pi.on("session_shutdown", async (event, ctx) => {
		const told = tell(commands.hook, facts("session_shutdown", ctx, { reason: event.reason }), ctx);
		await within(LEAVE_MS, told);
	});

	const files = commands.remember.filter((word) => word.startsWith("/"));
	if (files.length && files.every((file) => existsSync(file))) registerRemember(pi, commands.remember);
}

function registerRemember(pi: ExtensionAPI, remember: string[]): void {
	pi.registerTool({
		name: "memory_remember",
		label: "Remember",
		description:
			"Keep one fact for later sessions. Only when the user asks to remember something, in the user's own words.",
		parameters: Type.Object({
			content: Type.String({ description: "What to remember: one or two sentences, no secrets." }),
			scope: Type.Optional(
				Type.Union([Type.Literal("project"), Type.Literal("user")], {
					description: "project (default): this code base only. user: everywhere.",
				}),
			),
		}),
		async execute(_id, params, signal, _onUpdate, ctx) {
			const [program = "", ...first] = remember;
			const scope = params.scope === "user" ? "--user" : "--project";
			const done = await pi.exec(program, [...first, scope, "--", params.content], {
				cwd: ctx.cwd,
				timeout: REMEMBER_MS,
				...(signal ? { signal } : {}),
			});
			const text = (done.code === 0 ? done.stdout : done.stderr).trim();
			if (done.code !== 0) throw new Error(text || "It was not saved.");
			return { content: [{ type: "text", text: text || "Saved." }], details: {} };
		},
	});
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
		const answer = new Promise<string>((resolve) => {
			let text = "";
			child.stdout?.setEncoding("utf8").on("data", (piece: string) => {
				if (text.length < MAX_ANSWER) text += piece;
			});
			child.on("error", () => resolve(""));
			child.on("close", () => resolve(text));
		});
		child.stdin?.end(JSON.stringify(payload));
		const text = await within(ANSWER_MS, answer);
		if (text === undefined) child.kill("SIGKILL");
		const said: unknown = JSON.parse(text || "{}");
		const output = isFields(said) && isFields(said.hookSpecificOutput) ? said.hookSpecificOutput : {};
		return typeof output.additionalContext === "string" ? output.additionalContext : "";
	} catch {
		return "";
	}
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
		return hook.length ? { hook, remember: strings(said.remember) } : undefined;
	} catch {
		return undefined;
	}
}

function strings(value: unknown): string[] {
	return Array.isArray(value) && value.every((item) => typeof item === "string") ? value : [];
}

function isFields(value: unknown): value is Fields {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}
