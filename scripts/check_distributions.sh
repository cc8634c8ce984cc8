#!/usr/bin/env bash
# Tries what README promises on fresh machines: for each distribution a minimal root made by debootstrap, a clone of this
# repository's HEAD in it, and there scripts/demo.sh and scripts/test.sh to their ends. Prints a table of what passed.
# Usage, as root: scripts/check_distributions.sh [options] [bookworm|trixie|noble ...]   (all three if none is named:
# Debian 12, Debian 13, Ubuntu 24.04). Hours of work: under nice other programs stay quick.
#   --work DIR          where roots and logs are (default: build-distributions beside the sources); a root that is there is
#                       made anew
#   --reuse             take roots that are there as they are, with what is built in them; the clone is brought up to date
#   --debian URL        the archive of Debian (default: the one that apt takes on this machine)
#   --ubuntu URL        the archive of Ubuntu (default: likewise, or what lies beside Debian's on the same host)
#   --ubuntu-keyring F  the archive's keys (default: those of this machine, or of Debian's package ubuntu-keyring, fetched
#                       by a root of trixie if there is one)
#   --demo | --test     only one of the two scripts
# The environment's and apt's proxies count in the roots, too. Exit status: 0 if all passed, and there was something to try.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)

fail() { echo "check_distributions.sh: $*" >&2; exit 2; }

work=$source/build-distributions reuse=0 debian='' ubuntu='' ubuntu_keyring='' stages=(demo test) distributions=()
while [ $# -gt 0 ]; do
  case "$1" in
    --work | --debian | --ubuntu | --ubuntu-keyring)
      [ $# -gt 1 ] || fail "$1 wants a value"
      case "$1" in
        --work) work=$2 ;;
        --debian) debian=$2 ;;
        --ubuntu) ubuntu=$2 ;;
        --ubuntu-keyring) ubuntu_keyring=$2 ;;
      esac
      shift ;;
    --reuse) reuse=1 ;;
    --demo | --test) stages=("${1#--}") ;;
    bookworm | trixie | noble) distributions+=("$1") ;;
    --help | -h) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) fail "unknown argument '$1'; wanted bookworm, trixie, noble, or an option that --help tells" ;;
  esac
  shift
done
[ "${#distributions[@]}" -gt 0 ] || distributions=(bookworm trixie noble)
[ "$(id -u)" -eq 0 ] || fail "wants to be root, to make roots and to work in them"
command -v debootstrap >/dev/null || fail "wants the package debootstrap"
mkdir -p "$work"
work=$(cd "$work" && pwd)
[ -z "$(git -C "$source" status --porcelain --untracked-files=no)" ] || echo "check_distributions.sh: what is not committed is not tried" >&2

# The archive that this machine's apt takes for a distribution: archive_of Debian
archive_of() {
  { apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 2>/dev/null || true; } |
    awk -v name="$1" '$1 == name && $2 == name && !found { print $3; found = 1 }'
}
debian=${debian:-$(archive_of Debian)}
ubuntu=${ubuntu:-$(archive_of Ubuntu)}
ubuntu=${ubuntu:-${debian/%\/debian*/\/ubuntu}}

# Of debootstrap's files the one whose name ends so.
part_of_debootstrap() { dpkg -L debootstrap | grep "/scripts/$1\$"; }

# Keys that Debian vouches for: the package is fetched and unpacked, and not installed, by apt in the root of trixie.
find_ubuntu_keyring() {
  [ -z "$ubuntu_keyring" ] || return 0
  ubuntu_keyring=$(dpkg -L ubuntu-keyring 2>/dev/null | grep '/ubuntu-archive-keyring.gpg$') && return 0
  [ -e "$work/trixie/made" ] || return 0
  chroot "$work/trixie/tree" bash -c 'cd "$(mktemp -d)" && apt-get update -qq && apt-get download -qq ubuntu-keyring >&2 &&
    dpkg --fsys-tarfile ubuntu-keyring_*.deb' | tar -xO --wildcards '*/ubuntu-archive-keyring.gpg' >"$work/ubuntu.gpg" || return 0
  ubuntu_keyring=$work/ubuntu.gpg
}

# make_root NAME: a minimal root in $work/NAME/tree
make_root() {
  local options=(--variant=minbase --force-check-gpg --include=ca-certificates) archive=$debian script=sid
  if [ "$1" = noble ]; then
    find_ubuntu_keyring
    options+=("--components=main,universe")
    [ -z "$ubuntu_keyring" ] || options+=("--keyring=$ubuntu_keyring")
    archive=$ubuntu script=gutsy
  fi
  [ -n "$archive" ] || { echo "apt names no archive for it here: --debian or --ubuntu does"; return 1; }
  rm -rf --one-file-system "${work:?}/$1"
  mkdir -p "$work/$1"
  debootstrap "${options[@]}" "$1" "$work/$1/tree" "$archive" "$(part_of_debootstrap "$script")" || return 1
  apt-config dump | grep -iE '^Acquire::[a-z]+::Proxy' >"$work/$1/tree/etc/apt/apt.conf.d/90proxy" || true
  touch "$work/$1/made"
}

# inside NAME COMMAND: in the root, with its mounts, which go with the command, and little of our environment.
inside() {
  local root=$work/$1/tree variables=() variable
  for variable in http_proxy https_proxy no_proxy CMAKE_BUILD_PARALLEL_LEVEL CTEST_PARALLEL_LEVEL OMP_WAIT_POLICY; do
    [ -z "${!variable:-}" ] || variables+=("$variable=${!variable}")
  done
  unshare --mount --propagation private bash -euc '
    root=$1; shift
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" env -i PATH="$PATH" HOME=/root LANG=C.UTF-8 "$@"' \
    inside "$root" "${variables[@]}" bash -c "$2" </dev/null
}

# clone_into NAME: HEAD as it is, without our folder in its configuration.
clone_into() {
  local clone=$work/$1/tree/sectionflow
  if [ -d "$clone/.git" ]; then
    git -C "$clone" fetch -q "$source" HEAD && git -C "$clone" reset -q --hard FETCH_HEAD
  else
    git clone -q --no-hardlinks "file://$source" "$clone" && git -C "$clone" remote remove origin
  fi
}

version_in() { inside "$1" "$2" 2>/dev/null | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1 || true; }
versions_of() {
  local onednn
  onednn=$(inside "$1" "dpkg-query -W -f='\${Version}' libdnnl-dev" 2>/dev/null || true)
  echo "$(version_in "$1" 'g++ -dumpfullversion')|$(version_in "$1" 'cmake --version')|${onednn%%[-+]*}"
}

# What a log says of its tests: "812 of 812"
tests_of() {
  sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of ([0-9]+).*/\1 \2/p' "$1" |
    awk '{ failed += $1; all += $2 } END { if (all) print all - failed " of " all }'
}

declare -A names=([bookworm]='Debian 12' [trixie]='Debian 13' [noble]='Ubuntu 24.04')
rows=('distribution|g++|CMake|oneDNN|demo|tests|warnings|minutes')
num_tried=0 num_failed=0

for name in "${distributions[@]}"; do
  logs=$work/$name
  begin=$SECONDS
  if [ "$reuse" -eq 0 ] || [ ! -e "$logs/made" ]; then
    echo "== ${names[$name]}: a root in $logs/tree =="
    if ! make_root "$name" >"$work/$name.root.log" 2>&1; then
      rows+=("${names[$name]}|no root: $(tail -n 1 "$work/$name.root.log")||||||")
      continue
    fi
  fi
  clone_into "$name"
  num_tried=$((num_tried + 1))
  declare -A result=([demo]='not tried' [test]='not tried')
  for stage in "${stages[@]}"; do
    echo "== ${names[$name]}: scripts/$stage.sh, into $logs/$stage.log =="
    if inside "$name" "cd sectionflow && scripts/$stage.sh" >"$logs/$stage.log" 2>&1; then
      result[$stage]=passed
    else
      result[$stage]=FAILED
      num_failed=$((num_failed + 1))
      tail -n 15 "$logs/$stage.log"
    fi
  done
  tests=$([ ! -e "$logs/test.log" ] || tests_of "$logs/test.log")
  warnings=$(cat "$logs"/demo.log "$logs"/test.log 2>/dev/null | grep -cE '^CMake [A-Za-z ]*(Warning|Error)|:[0-9]+:[0-9]+: (warning|error): ' || true)
  [ "$warnings" -eq 0 ] || num_failed=$((num_failed + 1))
  rows+=("${names[$name]}|$(versions_of "$name")|${result[demo]}|${result[test]}${tests:+, $tests}|$warnings|$(((SECONDS - begin) / 60))")
done

echo
printf '%s\n' "${rows[@]}" | column -t -s '|' -o '  '
[ "$num_tried" -gt 0 ] && [ "$num_failed" -eq 0 ]
