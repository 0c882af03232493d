// Installs packages of npm into a volume.
//
// This text is run by the Node of an image. It reads a question in JSON from stdin: "place" is an empty directory,
// "requirements" are words for npm, "scripts" are packages whose own programs may run, "name" is the package and
// "command" the program of it that is wanted, or null for the one that it has. The last line of its output is the
// answer: "run", the words that run the program, or "missing", the programs that there are instead; "left" are packages
// whose own programs were not run.
"use strict";
const { spawnSync } = require("child_process");
const { mkdirSync, readFileSync, writeFileSync } = require("fs");
const { join, normalize, sep } = require("path");

const asked = JSON.parse(readFileSync(0, "utf8"));
const place = join(asked.place, "package");

function npm(...words) {
    const done = spawnSync("npm", words, { cwd: place, stdio: ["ignore", 2, 2] });
    if (done.error) process.stderr.write(`npm: ${done.error.message}\n`);
    if (done.status !== 0) process.exit(done.status || 1);
}

function packagesWithScripts() {
    const found = JSON.parse(readFileSync(join(place, "package-lock.json"), "utf8")).packages;
    const having = Object.keys(found).filter((path) => found[path].hasInstallScript);
    return having.map((path) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length));
}

mkdirSync(place);
writeFileSync(join(place, "package.json"), '{"private": true}\n');
npm("install", "--ignore-scripts", "--omit=dev", "--save-exact", "--", ...asked.requirements);
if (asked.scripts.length > 0) npm("rebuild", "--ignore-scripts=false", "--foreground-scripts", "--", ...asked.scripts);

const folder = join(place, "node_modules", asked.name);
const told = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
const own = asked.name.split("/").pop();
const programs = typeof told.bin === "string" ? { [own]: told.bin } : told.bin || {};
const names = Object.keys(programs);
const wanted = asked.command || (names.length === 1 ? names[0] : own);
const script = programs[wanted] && normalize(join(folder, programs[wanted]));
const left = packagesWithScripts().filter((name) => !asked.scripts.includes(name));
let answer = { missing: names.sort(), left };
if (script && script.startsWith(place + sep)) {
    const first = readFileSync(script, "utf8").split("\n", 1)[0];
    const byNode = !first.startsWith("#!") || /^#!\s*(\/usr\/bin\/env\s+)?(\S*\/)?node(js)?\s*$/.test(first);
    answer = { run: byNode ? ["node", script] : [script], left };
}
process.stdout.write(JSON.stringify(answer) + "\n");
