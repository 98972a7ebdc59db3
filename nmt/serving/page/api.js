// Requests to the server. An AbortSignal aborts a request whose answer is no longer needed.

/** A failed request. `gone`: the server did not answer. `again`: the request may be repeated. */
class Problem extends Error {
  constructor(message, { gone = false, again = gone } = {}) {
    super(message);
    Object.assign(this, { gone, again });
  }
}

const TIMEOUT = 60_000;

async function call(path, options, signal) {
  const limit = AbortSignal.timeout(TIMEOUT);
  let response;
  let answer;
  try {
    response = await fetch(path, { ...options, signal: signal ? AbortSignal.any([signal, limit]) : limit });
    answer = await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    if (response && error instanceof SyntaxError) {
      throw new Problem("The server sent an invalid answer.", { again: response.status >= 500 });
    }
    throw new Problem("The server does not answer.", { gone: true });
  }
  if (response.ok) return answer;
  if (response.status === 429 || response.status === 503) throw new Problem("The server is busy.", { again: true });
  throw new Problem(answer.error ?? "The server refused the request.", { again: response.status >= 500 });
}

export const get = (path) => call(path, {});
export const post = (path, body, signal) => call(path, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
}, signal);

/** Calls `act` once, when a section of the page is visible or nearly visible. */
export function onceSeen(section, act) {
  const watch = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    act();
  }, { rootMargin: "200px" });
  watch.observe(section);
}

/** Returns an object that makes requests of one kind. A new request aborts the previous request. */
export function newest() {
  let controller = null;
  return {
    stop() { controller?.abort(); controller = null; },
    async run(request) {
      controller?.abort();
      const mine = controller = new AbortController();
      try {
        const answer = await request(mine.signal);
        return mine.signal.aborted ? undefined : answer;
      } catch (error) {
        if (mine.signal.aborted) return undefined;
        throw error;
      }
    },
  };
}
