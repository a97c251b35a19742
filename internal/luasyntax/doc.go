// Package luasyntax is the syntax of Lua 5.1 as gopher-lua's parser reads it: the tree, a walk of it, where each
// node stands in the source, byte for byte, and the lines that Lua 5.1 blames when a node fails.
package luasyntax
