// What went wrong, in words.

import type { Failure } from '../protocol.ts';

/** A failure that this page finds itself. */
export class FailureError extends Error {
  constructor(
    readonly kind: string,
    message: string,
  ) {
    super(message);
  }
}

/** What any thrown thing comes to. */
export function failureOf(error: unknown): Failure {
  if (error instanceof FailureError) return { kind: error.kind, text: error.message, fatal: false };
  const payload = payloadOf(error);
  if (payload) return { kind: payload.tag, text: sentence(payload), fatal: false };
  if (error instanceof RangeError && /past what this page/.test(error.message)) {
    return { kind: 'page', text: error.message, fatal: false };
  }
  // A trap, or a fault of this page: the component cannot be entered again.
  const text = error instanceof Error ? error.message : String(error);
  return { kind: 'trap', text: `The component failed or ran out of memory (${text}).`, fatal: true };
}

interface Tagged {
  tag: string;
  val?: unknown;
}

/** What the component returned, as jco throws it. */
function payloadOf(error: unknown): Tagged | undefined {
  const payload: unknown = (error as { payload?: unknown } | null)?.payload;
  return isTagged(payload) ? payload : undefined;
}

/** Whether it is an error of the contract's `files`, as a directory throws it. */
export const isFileError = (error: unknown): boolean => isTagged(error);

function isTagged(value: unknown): value is Tagged {
  return typeof value === 'object' && value !== null && 'tag' in value;
}

interface FaultText {
  file: string;
  offset?: bigint | undefined;
  index?: bigint | undefined;
  reason: string;
}

function sentence({ tag, val }: Tagged): string {
  switch (tag) {
    case 'corrupt': {
      const { file, offset, index, reason } = val as FaultText;
      const record = index === undefined ? '' : `record ${index}: `;
      const place = offset === undefined ? file : `${file} at byte ${offset}`;
      return `${record}${place}: ${reason}`;
    }
    case 'out-of-range': {
      const { index, length } = val as { index: bigint; length: bigint };
      return `There is no record ${index}; the store has ${length}.`;
    }
    case 'too-large': {
      const { len, limit } = (val ?? {}) as { len?: bigint; limit?: bigint };
      return len === undefined
        ? 'Too much was asked for at once.'
        : `The record has ${len} bytes, more than the ${limit} that are read at once.`;
    }
    case 'invalid-argument': {
      if (typeof val === 'string') return val;
      const { argument, reason } = val as { argument: string; reason: string };
      return `${argument}: ${reason}`;
    }
    case 'io': {
      const { file, code } = val as { file: string; code: Tagged };
      return `${file} cannot be read: ${fileError(code)}`;
    }
    default:
      return typeof val === 'string' ? val : `The component says: ${tag}.`;
  }
}

const FILE_ERRORS: Readonly<Record<string, string>> = {
  'no-entry': 'there is no such file',
  access: 'the browser gives no access',
  'not-a-file': 'it is no file',
  'too-large': 'too much was asked for at once',
  io: 'reading failed',
};

function fileError({ tag, val }: Tagged): string {
  return typeof val === 'string' ? val : (FILE_ERRORS[tag] ?? tag);
}
