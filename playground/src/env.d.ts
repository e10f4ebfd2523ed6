declare module "*.toml" {
  const text: string;
  export default text;
}
/** The worker's script, put in by the build. */
declare const WORKER: string;
/** Findings that stories speak of, as published. */
declare const FINDINGS: Record<string, { claim: string; verdict: string }>;
/** The remedies of the study `remedies`. */
declare const CATALOGUE: import("./remedies").Entry[];
