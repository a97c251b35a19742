#!/bin/sh
# Makes a release of HEAD: release.sh v0.1.0. What it makes depends on HEAD, the version and Node only.
#
#     dist                            what users download
#     tmp/release/tree                a clone whose last commit names the version, with the tags of all modules
#     tmp/release/mod/cache/download  the modules at the version, as a GOPROXY
set -eu
umask 022
cd "$(dirname "$0")/.."
version=$1
path=github.com/sluice-redis/sluice
modules='adapters grpclimit otel policy cmd/sluice cmd/sluiced' # each behind those that it requires
cyclonedx=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
work=$PWD/tmp/release
tree=$work/tree
export DIST="$PWD/dist" VERSION="$version" CGO_ENABLED=0 GOWORK=off GOTOOLCHAIN=go1.26.8

# The clone's commit is by HEAD's committer, at HEAD's time.
head=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
GIT_AUTHOR_NAME=$(git log -1 --format=%cn)
GIT_AUTHOR_EMAIL=$(git log -1 --format=%ce)
GIT_AUTHOR_DATE="@$SOURCE_DATE_EPOCH +0000"
GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
export SOURCE_DATE_EPOCH GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE
export GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
rm -rf "$work" "$DIST"
mkdir -p "$work" "$DIST"
git clone -q --shared --no-tags . "$tree"
cd "$tree"

# Runs the go command as users do, except that it finds our modules in the clone, and others where they are already.
# Without goindex=0 it would take the list of a module's packages from an earlier release that was made at this path.
proxy="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
alone() {
	env GODEBUG=goindex=0 GOPROXY="$proxy" GOPRIVATE=$path GOMODCACHE="$work/mod" GOFLAGS=-modcacherw GIT_CONFIG_COUNT=1 \
		GIT_CONFIG_KEY_0="url.file://$tree.insteadOf" GIT_CONFIG_VALUE_0=https://$path "$@"
}

# Makes all changes one commit on HEAD, and sets the tags. At a tag there are none, and HEAD is the release. The go
# command's copy of the clone has the tags as they were.
commit() {
	git reset -q --soft "$head"
	git add -u
	git diff --cached --quiet || git commit -qm "Release $version"
	for tag in '' $modules; do git tag -f "${tag:+$tag/}$version" >/dev/null; done
	rm -rf "$work/mod/cache/vcs"
}

sed -i "s/^__version__ = .*/__version__ = \"${version#v}\"/" clients/python/src/sluice_redis/__init__.py
sed -i "s/^  \"version\": .*/  \"version\": \"${version#v}\",/" clients/node/package.json
for module in $modules; do sed -i "s|^\(\t$path[/a-z]*\) v.*|\1 $version|" "$module/go.mod"; done
commit
for module in $modules; do
	alone go -C "$module" mod tidy
	commit
done
rm -rf "$work/mod/${path%/*}" "$work/mod/cache/download/${path%/*}" # from earlier commits
for module in '' $modules; do alone go mod download "$path${module:+/$module}@$version"; done

for platform in linux/amd64 linux/arm64 darwin/arm64 windows/amd64; do
	os=${platform%/*} arch=${platform#*/} exe=
	[ $os != windows ] || exe=.exe
	for command in sluice sluiced; do
		GOOS=$os GOARCH=$arch alone go build -C cmd/$command -trimpath -buildvcs=true -ldflags '-s -w' \
			-o "$DIST/$command-$os-$arch$exe" .
	done
done
for command in sluice sluiced; do
	go run -trimpath $cyclonedx bin -json -noserial -notimestamp -output "$DIST/$command.cdx.json" \
		"$DIST/$command-linux-amd64"
done

archive() {
	tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work" -c "$1" |
		gzip -n9 >"$DIST/$1.tar.gz"
}
export BUNDLE="$work/sluice-scripts-$version"
mkdir "$BUNDLE"
cp -r LICENSE scripts scripttest/vectors "$BUNDLE"
alone go run -C cmd/sluice -trimpath . acl --format aclfile >"$BUNDLE/users.acl"
archive "sluice-scripts-$version"
(cd playground && npm ci --silent && node build.mjs "$work/sluice-playground-$version" >/dev/null)
archive "sluice-playground-$version"

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --require-hashes --only-binary :all: -r release/python-build.txt
"$work/venv/bin/python" -m build --no-isolation --outdir "$DIST" clients/python >/dev/null
npm pack ./clients/node --silent --pack-destination "$DIST" >/dev/null

for ARCH in amd64 arm64; do
	export ARCH
	for packager in deb rpm; do
		go run -trimpath $nfpm package -f release/nfpm.yaml -p $packager -t "$DIST" >/dev/null
	done
done

cd "$DIST"
sha256sum -- * >SHA256SUMS
