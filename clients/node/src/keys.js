'use strict';

const { isUtf8 } = require('node:buffer');
const { createHash } = require('node:crypto');
const { checkStrings } = require('./scripts');

// Subjects are as in the Go package httplimit.

/** Returns the subject of a list of values. Different lists have different subjects. */
function subjectOf(...values) {
  checkStrings('subjectOf', 'values', values);
  return values.map(coded).join('|');
}

function coded(value) {
  if (value === '') return '~';
  if (Buffer.byteLength(value) > 128) return `~2${createHash('sha256').update(value).digest('base64url')}`;
  return value.replaceAll('~', '~0').replaceAll('|', '~1');
}

/** Counts by the value of a header, whose bytes are read as UTF-8. */
function keyByHeader(name) {
  checkStrings('keyByHeader', 'name', [name]);
  return ({ headers }) => {
    const bytes = Buffer.from(headers[name.toLowerCase()] ?? '', 'latin1');
    return isUtf8(bytes) ? bytes.toString() : '';
  };
}

module.exports = { keyByHeader, subjectOf };
