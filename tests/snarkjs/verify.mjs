// node verify.mjs [--expect-reject] FOLDER...
//
// Exits with 0 if snarkjs accepts the proof in every FOLDER, which holds verification_key.json, public.json and
// proof.json; with --expect-reject, if it says "no" to every one. A file that cannot be read and an exception
// are failures either way: a broken check must not pass for a rejection.
import fs from "node:fs";
import path from "node:path";
import * as snarkjs from "snarkjs";

const flag = "--expect-reject";
const expected = !process.argv.includes(flag);
const folders = process.argv.slice(2).filter((argument) => argument !== flag);
if (folders.length === 0 || folders.some((folder) => folder.startsWith("-"))) {
  console.error(`usage: node verify.mjs [${flag}] FOLDER...`);
  process.exit(2);
}

let failures = 0;
for (const folder of folders) {
  const read = (name) => JSON.parse(fs.readFileSync(path.join(folder, name), "utf8"));
  let verdict;
  try {
    const [key, signals, proof] = ["verification_key.json", "public.json", "proof.json"].map(read);
    verdict = await snarkjs.groth16.verify(key, signals, proof);
  } catch (error) {
    verdict = error;
  }
  const good = verdict === expected;
  failures += good ? 0 : 1;
  const said = { true: "accepts", false: "rejects" }[verdict] ?? `fails on (${verdict})`;
  console.log(`${good ? "ok" : "FAILED"}: snarkjs ${said} ${folder}`);
}
console.log(`snarkjs: ${folders.length - failures} passed, ${failures} failed`);
// snarkjs' worker threads would keep node alive.
process.exit(failures === 0 ? 0 : 1);
