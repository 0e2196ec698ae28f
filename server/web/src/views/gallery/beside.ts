// What of the gallery stands beside other views: a line of examples, and the text of the example that is shown.
export { Component } from './Opened';
export { Shelf } from './Shelf';
