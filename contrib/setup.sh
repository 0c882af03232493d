# shellcheck shell=bash
# Sourced by demo.sh and check.sh: what they need on a fresh Debian or Ubuntu, as root or not.
# Nothing here is left half done: every step looks first, works once, and says in one line what a person must do if it may not.

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv

say() {
    if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then printf '\033[2m%s\033[0m\n' "$*"; else printf '%s\n' "$*"; fi
}

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

# An empty or unusable HOME must not stop pip and npm, which keep caches there.
ensure_home() {
    if [ -z "${HOME:-}" ] || [ ! -d "$HOME" ] || [ ! -w "$HOME" ]; then
        export HOME=$root/.home
        mkdir -p "$HOME"
    fi
}

# May packages be installed here without asking anybody? SMCP_INSTALL=no says no.
may_install() {
    [ "${SMCP_INSTALL:-yes}" != no ] && command -v apt-get >/dev/null || return 1
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

# Given package names, install them; quiet unless it fails.
install_packages() {
    local as_root=() log
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    say "installing $* with apt-get"
    log=$(mktemp)
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300)
    # The package lists of a fresh machine are empty, those of an old one name files that are gone.
    if "${apt[@]}" install --no-install-recommends "$@" >"$log" 2>&1 ||
        { "${apt[@]}" update >>"$log" 2>&1 && "${apt[@]}" install --no-install-recommends "$@" >>"$log" 2>&1; }; then
        rm -f "$log"
    else
        tail -n 15 "$log" >&2
        rm -f "$log"
        return 1
    fi
}

# Given package names, install them, or say how to.
obtain() {
    if ! may_install; then
        say "missing, and may not be installed from here: sudo apt-get install $*"
    elif ! install_packages "$@"; then
        say "could not be installed: $*"
    fi
}

# Given a name, make a person of that name on a machine where root runs the tests: rootless engines need one.
ensure_person() {
    [ "$(id -u)" = 0 ] || return 0
    id "$1" >/dev/null 2>&1 && return 0
    may_install || return 0
    say "adding the user $1, who runs Podman in tests"
    useradd --create-home "$1"
}

# Given COMMAND=PACKAGE words, install what is missing of them and of what a virtual environment needs, or say how to.
ensure_system() {
    local word packages=()
    for word in "$@"; do
        command -v "${word%%=*}" >/dev/null || packages+=("${word#*=}")
    done
    if python=$(find_python); then
        "$python" -c 'import ensurepip' 2>/dev/null || packages+=("$("$python" -c "$venv_package")")
    elif ! command -v python3 >/dev/null; then
        packages+=(python3 python3-venv)
    fi
    [ ${#packages[@]} = 0 ] || obtain "${packages[@]}"
}

# Given LIBRARY=PACKAGE, install what programs are built with, where pkg-config does not know the library.
ensure_library() {
    command -v pkg-config >/dev/null && ! pkg-config --exists "${1%%=*}" || return 0
    obtain "${1#*=}"
}

# Install what extensions in C are built with, where the Python that is used comes without it.
ensure_headers() {
    local python
    python=$(find_python) || return 0
    "$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
        obtain "$("$python" -c 'import sys; print("python%d.%d-dev" % sys.version_info[:2])')"
}

# Given a command and why it is needed, end here if it is still missing.
require() { command -v "$1" >/dev/null || fail "$1 is needed: $2"; }

venv_package='import sys; print("python%d.%d-venv" % sys.version_info[:2])'
new_enough() { command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local name
    for name in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python3.14; do
        if new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    return 1
}

# The environment is made anew when the clone was moved or its Python is gone.
ensure_venv() {
    if [ "$(cat "$venv/place" 2>/dev/null)" = "$venv" ] && "$venv/bin/python" -m pip -V >/dev/null 2>&1; then
        return
    fi
    python=$(find_python) || fail \
        "Python 3.11 or newer is needed; $(python3 -V 2>/dev/null || echo 'no python3') was found." \
        "  Install one (for example: sudo apt-get install python3.11 python3.11-venv) or name it: PYTHON=/path/to/python3 $0"
    "$python" -c 'import ensurepip, venv' 2>/dev/null || fail \
        "$python cannot make virtual environments, because its module ensurepip is missing." \
        "  Install it and come again: sudo apt-get install $("$python" -c "$venv_package")"
    say "creating .venv with $("$python" -V)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    printf '%s\n' "$venv" >"$venv/place"
}

# Given a dependency group, install the program (editable) with it, once for each state of pyproject.toml.
install_project() {
    local group=$1 state
    ensure_venv
    state=$(cksum <"$root/pyproject.toml")
    [ "$(cat "$venv/installed-$group" 2>/dev/null)" = "$state" ] && return
    say "installing smcp with what its $group needs into .venv"
    local pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check)
    "${pip[@]}" install --upgrade 'pip>=25.1' # the first that knows dependency groups
    (cd "$root" && "${pip[@]}" install --editable . --group "$group")
    printf '%s\n' "$state" >"$venv/installed-$group"
}

# Given an extra of the program, install what it names, once for each state of pyproject.toml; the program does without.
install_extra() {
    local extra=$1 state
    state=$(cksum <"$root/pyproject.toml")
    [ "$(cat "$venv/installed-extra-$extra" 2>/dev/null)" = "$state" ] && return
    say "installing the extra $extra into .venv"
    if (cd "$root" && "$venv/bin/python" -m pip --quiet --disable-pip-version-check install --editable ".[$extra]"); then
        printf '%s\n' "$state" >"$venv/installed-extra-$extra"
    else
        say "the extra $extra cannot be installed here, so nothing of it is tested"
    fi
}
