# Runs in the machine, as root, from the unit guest.service or in its place; the console is its output. Each phase is one
# run of pytest.
set -u
cd /srv/repo || exit 1
tests=/srv/venv/bin/python
python3 -m venv --without-pip /srv/venv
printf '/srv/repo\n/srv/site\n' >"$(echo /srv/venv/lib/python3.*/site-packages)/srv.pth"
printf '#!/srv/venv/bin/python\nimport sys\nfrom supervisord_mcp.cli import main\nsys.exit(main())\n' >/srv/venv/bin/smcp
chmod 755 /srv/venv/bin/smcp
# Nothing may be skipped here for want of anything: that is what this machine is for.
common="PATH=/srv/venv/bin:/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 CI=true SMCP_VM=1"
pytest="$tests -m pytest -p no:cacheprovider --color=no -v -o faulthandler_timeout=600"
limits="tests/runtimes/test_hierarchy.py tests/runtimes/test_cgroup.py tests/runtimes/test_limits.py
    tests/runtimes/test_rlimits.py tests/runtimes/test_watcher.py tests/runtimes/test_restraint.py"
filter="tests/runtimes/test_filtered.py tests/runtimes/test_syscalls.py tests/runtimes/test_seccomp.py
    tests/runtimes/test_filter_text.py tests/runtimes/test_bpf.py"
# What Node, git and a real server do under the filter is tested where they are.
some='not node and not git and not real_server'

as_root() { env -i $common HOME=/root HYPOTHESIS_STORAGE_DIRECTORY=/root/hypothesis "$@"; }
as_person() {
    setpriv --reuid 1000 --regid 1000 --init-groups \
        env -i $common HOME=/home/person USER=person XDG_RUNTIME_DIR=/run/user/1000 \
        HYPOTHESIS_STORAGE_DIRECTORY=/home/person/hypothesis "$@"
}

phase() {
    begun=$(date +%s)
    case $1 in
    # In a group that is delegated to the tests, as that of the unit is to the daemon.
    limits-root) as_root systemd-run --scope --quiet --property=Delegate=yes $pytest $limits ;;
    limits-person) as_person systemd-run --user --scope --quiet --property=Delegate=yes $pytest $limits ;;
    # In the group of whatever started them: the daemon has to find its own.
    daemon-root) as_root $pytest tests/vm tests/e2e/test_limits.py ;;
    daemon-person) as_person $pytest tests/vm tests/e2e/test_limits.py ;;
    filter-root) as_root $pytest $filter -k "$some" ;;
    filter-person) as_person $pytest $filter -k "$some" ;;
    *) echo "no phase $1"; false ;;
    esac
    echo "guest: $1 ended with status $? after $(($(date +%s) - begun)) s"
}

# Nobody but root may write what Python compiles here, and the first start of the daemon would be a very long one.
as_root $tests -c "import hypothesis, jsonschema, pytest, supervisord_mcp.daemon, supervisord_mcp.cli.app, tests.kit.daemon"
if [ -d /run/systemd/system ]; then
    useradd --create-home --uid 1000 --shell /bin/bash person
    loginctl enable-linger person
    while [ ! -S /run/user/1000/bus ]; do sleep 0.1; done
    # The first scope takes a service manager a long time here.
    as_person systemd-run --user --scope --quiet true
    systemctl --version | head -n 1
fi
echo "guest: $(uname -srm), $(bwrap --version), $(python3 --version)"
while read -r name; do phase "$name" </dev/null; done <../phases
echo "guest: done"
