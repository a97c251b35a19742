// Package accesslog reads the access logs of web servers: the combined and the common log format, JSON lines of Caddy,
// nginx and Traefik, and lines of a log_format of nginx.
package accesslog
